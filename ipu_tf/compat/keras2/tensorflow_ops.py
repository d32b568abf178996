"""Functions of TensorFlow on the symbolic tensors of functional models."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.compat.spellings.spelling import Notify, Spelling
from ipu_tf.internals.keras import unique_name_like
from ipu_tf.internals.keras_graphs import history_of
from ipu_tf.internals.keras_layers import keep_training_from
from ipu_tf.internals.patches import Patch, Wrap
from ipu_tf.internals.tensorflow import dispatching, public_name_of

_SYMBOLIC_SHAPES = Patch(keras.KerasTensor, "shape", "shapes have the methods of a `TensorShape`")
_SYMBOLIC_DTYPES = Patch(keras.KerasTensor, "dtype", "dtypes have the attributes of a `DType`")
_SYMBOLIC_GET_SHAPE = Patch(
    keras.KerasTensor, "get_shape", "symbolic tensors tell a `TensorShape`", is_new=True
)


@keras.saving.register_keras_serializable("ipu_tf", name="TensorFlowOp")
class TFOpLambda(keras.Layer):
    """A function of TensorFlow as a layer of a functional model.

    Args:
        function: The function, or its name in `tf`, such as "math.reduce_sum".
        name: Name of the layer; by default that of the function, such as "tf.math.reduce_sum".

    Raises:
        ValueError: There is no such function.
    """

    def __init__(self, function: Any, name: str | None = None) -> None:
        if isinstance(function, str):
            self._function_name: str | None = function
            function = _named(function)
        else:
            self._function_name = public_name_of(function)
        prefix = f"tf.{self._function_name}" if self._function_name else function.__name__
        super().__init__(name=name or unique_name_like(prefix), autocast=False)
        self.built = True
        keep_training_from(self)
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the result of the function; lists may mix tensors and numbers."""
        # That of layers refuses such lists, and casts floats to the dtype of the layer.
        with keras.name_scope(self.name, caller=self):
            return keras.Operation.__call__(self, *args, **kwargs)

    def symbolic_call(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the symbolic result, and records the call.

        The names of the tensors are those of Keras 2, such as "tf.split/split:1".
        """
        outputs = keras.Operation.symbolic_call(self, *args, **kwargs)
        own = (self._function_name or self.name).rpartition(".")[2]
        for index, tensor in enumerate(keras.tree.flatten(outputs)):
            tensor.name = f"{self.name}/{own}:{index}"
        return outputs

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the result of the function."""
        return self.function(*args, **kwargs)

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the shapes and dtypes of the results."""
        args, kwargs = keras.tree.map_structure(as_computed, (args, kwargs))
        return super().compute_output_spec(*args, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make this layer.

        Raises:
            ValueError: The function has no public name.
        """
        if self._function_name is None:
            raise ValueError(
                f"Layer '{self.name}' calls a function of TensorFlow without a public name, so "
                "its model cannot be saved. Use a function of `tf` or of `keras.ops`."
            )
        return {"function": self._function_name, "name": self.name}


def as_computed(leaf: Any) -> Any:
    """Returns a symbolic tensor as dense unless it is an input.

    Keras marks products of dense tensors and numbers as sparse.
    """
    if not isinstance(leaf, keras.KerasTensor) or not leaf.sparse:
        return leaf
    if isinstance(history_of(leaf)[0], keras.layers.InputLayer):
        return leaf
    return keras.KerasTensor(leaf.shape, leaf.dtype)


def _named(dotted: str) -> Any:
    try:
        return reduce(getattr, dotted.split("."), tf)
    except AttributeError as error:
        raise ValueError(f"TensorFlow has no function 'tf.{dotted}'.") from error


class KerasShape(tuple[int | None, ...]):
    """The shape of a symbolic tensor: a tuple with the methods of `tf.TensorShape`."""

    __slots__ = ()

    def as_list(self) -> list[int | None]:
        """Returns the sizes as a list."""
        return list(self)

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self)

    ndims = rank


class KerasDtype(str):
    """The dtype of a symbolic tensor or a weight: its name, with the attributes of `tf.DType`."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        """Returns an attribute of the `tf.DType`, such as `base_dtype`."""
        return getattr(tf.as_dtype(str(self)), name)


def _name_in_keras_2(function: Any, inner: Sequence[Any]) -> str | None:
    """Returns a new name of a layer that calls a function, None for that of the function.

    Keras 2 made layers of the innermost functions: of `tf.squeeze`, which calls that of
    TensorFlow 1, a layer `tf.compat.v1.squeeze`.

    Args:
        function: The function.
        inner: The functions that it has called.
    """
    name = public_name_of(function)
    if name is None or name not in map(public_name_of, inner):
        return None
    return unique_name_like(f"tf.compat.v1.{name}")


@contextlib.contextmanager
def _symbolic_calls(notify: Notify) -> Iterator[None]:
    """Makes functions of TensorFlow layers where they are called with symbolic tensors."""

    def handle(
        function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], inner: Sequence[Any]
    ) -> Any:
        leaves = keras.tree.flatten((args, dict(kwargs)))
        if not any(isinstance(leaf, keras.KerasTensor) for leaf in leaves):
            return NotImplemented
        notify()
        return TFOpLambda(function, name=_name_in_keras_2(function, inner))(*args, **kwargs)

    with dispatching(handle):
        yield


def of_tensorflow(kind: type) -> Callable[[Notify], Wrap]:
    """Returns the factory of a property whose values have the methods of TensorFlow's."""

    def of_notify(notify: Notify) -> Wrap:
        del notify  # Reading a shape or a dtype is Keras 3's own.

        def wrap(stock: property) -> property:
            get: Any = stock.fget
            return property(lambda tensor: kind(get(tensor)), stock.fset)

        return wrap

    return of_notify


def _get_shape(notify: Notify) -> Wrap:
    """Returns the factory of the method `get_shape` of symbolic tensors."""

    def wrap(stock: None) -> Any:
        del stock  # Symbolic tensors of Keras 3 have none.

        def get_shape(tensor: keras.KerasTensor) -> tf.TensorShape:
            notify()
            return tf.TensorShape(tensor.shape)

        return get_shape

    return wrap


SPELLINGS = (
    Spelling(
        name="functions of `tf` on the tensors of a functional model",
        keras_2="Each became a layer.",
        here="Each becomes a layer of the model, a `TFOpLambda`, which can be saved where the "
        "function has a public name, and loaded under `ipu-tf run`. Variables that the function "
        "reads are not weights of the model, as in Keras 2.",
        context=_symbolic_calls,
    ),
    Spelling(
        name="`x.get_shape()`, `x.shape.as_list()`, `x.dtype.base_dtype` of a tensor of a "
        "functional model",
        keras_2="Its shape and dtype, a `tf.TensorShape` and a `tf.DType`.",
        here="`get_shape()` is a `tf.TensorShape`; `shape` is a tuple with `as_list()`, `rank` and "
        "`ndims`, `dtype` a string with the attributes of the `tf.DType`.",
        wraps=MappingProxyType(
            {
                _SYMBOLIC_SHAPES: of_tensorflow(KerasShape),
                _SYMBOLIC_DTYPES: of_tensorflow(KerasDtype),
                _SYMBOLIC_GET_SHAPE: _get_shape,
            }
        ),
    ),
)
