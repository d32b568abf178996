"""Variables of Keras where TensorFlow takes its own alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.compat.keras2.tensorflow_ops import KerasDtype, KerasShape, of_tensorflow
from ipu_tf.compat.spellings.spelling import Call, Notify, Spelling, called_by_library
from ipu_tf.internals.keras_layers import held_variable
from ipu_tf.internals.patches import Patch, Wrap

_VARIABLE_NAMES = Patch(keras.Variable, "name", "scripts find the layer in it")
_VARIABLE_SHAPES = Patch(keras.Variable, "shape", "shapes have whole numbers in TensorFlow 1, too")
_VARIABLE_VALUES = Patch(
    keras.Variable, "_initialize", "the variable of TensorFlow is named after its layer"
)
_VARIABLE_DTYPES = Patch(keras.Variable, "dtype", "dtypes have the attributes of a `DType`")
_VARIABLE_ATTRIBUTES = Patch(
    keras.Variable, "__getattr__", "weights have the methods of TensorFlow's variables", is_new=True
)
_WATCHED_VARIABLES = Patch(tf.GradientTape, "watch", "tapes watch weights of Keras")

_NOT_OF_A_SCOPE = re.compile(r"[^A-Za-z0-9_.\\/>-]")
"""What names of TensorFlow's scopes may not have."""

_OF_TENSORFLOW = frozenset(
    name for name in set(dir(tf.Variable)).difference(dir(keras.Variable)) if name[0] != "_"
)
"""What variables of TensorFlow have, and those of Keras lack."""

_READS: Mapping[str, Callable[..., tf.Tensor]] = MappingProxyType(
    {
        "gather_nd": tf.gather_nd,
        "initialized_value": tf.convert_to_tensor,
        "read_value": tf.convert_to_tensor,
        "sparse_read": tf.gather,
    }
)
"""Functions of the value that methods give; a layer of mixed precision reads it cast."""


def _watched(call: Call) -> bool:
    """Gives a tape the variables of TensorFlow that variables of Keras hold."""
    leaves = keras.tree.flatten((call.args, call.kwargs))
    if not any(isinstance(leaf, keras.Variable) for leaf in leaves):
        return False
    call.args, call.kwargs = keras.tree.map_structure(
        lambda leaf: leaf.value if isinstance(leaf, keras.Variable) else leaf,
        (call.args, call.kwargs),
    )
    return True


def _in_scope_of_layer(notify: Notify) -> Wrap:
    """Returns the factory of a method that makes the variable in the scope of its layer.

    Keras makes the variables of a model that is built by its first batch outside of any scope.
    """
    del notify  # Given where a script reads a name.

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def initialize(variable: keras.Variable, *args: Any) -> None:
            owner = _NOT_OF_A_SCOPE.sub("_", variable.path.rpartition("/")[0])
            with tf.name_scope(f"{owner}/" if owner else ""):
                stock(variable, *args)

        return initialize

    return wrap


def _names_with_layers(notify: Notify) -> Wrap:
    """Returns the factory of the property `name`, which scripts see as that of Keras 2."""

    def wrap(stock: property) -> property:
        assert stock.fget is not None
        own_name = stock.fget

        def name(variable: keras.Variable) -> str:
            if called_by_library():
                return str(own_name(variable))
            notify()
            return f"{variable.path}:0"

        return property(name)

    return wrap


def _with_whole_sizes(notify: Notify) -> Wrap:
    """Returns the factory of the property `shape`, whose sizes Keras 3 reckons with."""

    def wrap(stock: property) -> property:
        assert stock.fget is not None
        own_shape = stock.fget

        def shape(variable: keras.Variable) -> Any:
            found = own_shape(variable)
            if not any(isinstance(size, tf.compat.v1.Dimension) for size in found):
                return found
            notify()
            return KerasShape(found.as_list())

        return property(shape)

    return wrap


def _of_held_variable(notify: Notify) -> Wrap:
    """Returns the factory of the method that finds attributes which variables of Keras lack."""

    def wrap(stock: None) -> Any:
        del stock  # Variables of Keras have none.

        def find(variable: keras.Variable, name: str) -> Any:
            if name not in _OF_TENSORFLOW or called_by_library():
                kind = type(variable).__name__
                raise AttributeError(f"'{kind}' object has no attribute '{name}'", name=name)
            notify()
            if name in _READS:
                return partial(_READS[name], variable.value)
            return getattr(held_variable(variable), name)

        return find

    return wrap


SPELLINGS = (
    Spelling(
        name="`layer.kernel.name`",
        keras_2="The names of the layer and of the weight, as in `dense/kernel:0`.",
        here="The path of the weight, as in `dense/kernel:0`; Keras 3 alone says `kernel`. The "
        "variables of TensorFlow that optimizers of TensorFlow see have this name, too.",
        wraps=MappingProxyType(
            {
                _VARIABLE_NAMES: _names_with_layers,
                _VARIABLE_VALUES: _in_scope_of_layer,
            }
        ),
    ),
    Spelling(
        name="`tape.watch(layer.kernel)`",
        keras_2="The weights of a layer were variables of TensorFlow.",
        here="The tape watches the variable of TensorFlow that the weight holds.",
        rewrites=MappingProxyType({_WATCHED_VARIABLES: _watched}),
    ),
    Spelling(
        name="`layer.kernel.get_shape()`, `read_value()`, `scatter_update(...)`, `op`, `device`, "
        "and what else variables of TensorFlow have",
        keras_2="The weights of a layer were variables of TensorFlow.",
        here="They come from the variable of TensorFlow that the weight holds.",
        wraps=MappingProxyType({_VARIABLE_ATTRIBUTES: _of_held_variable}),
    ),
    Spelling(
        name="`layer.kernel.dtype.size`",
        keras_2="The dtype of a weight was a `tf.DType`.",
        here="It is a string with the attributes of the `tf.DType`.",
        wraps=MappingProxyType({_VARIABLE_DTYPES: of_tensorflow(KerasDtype)}),
    ),
    Spelling(
        name="`model.summary()` after `tf.disable_v2_behavior()`, and what else takes the shape "
        "of a weight",
        keras_2="Keras knew the `Dimension`s in the shapes of TensorFlow 1.",
        here="The shape of a weight has whole numbers.",
        wraps=MappingProxyType({_VARIABLE_SHAPES: _with_whole_sizes}),
    ),
)
