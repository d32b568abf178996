"""Shared parts of the IPU optimizers: dtypes of slots, precision of the update, outlining."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeAlias

import keras
import tensorflow as tf

from ipu_tf.internals.keras_optimizers import Variable, key_in
from ipu_tf.internals.structures import DType

Optimizer: TypeAlias = "keras.optimizers.Optimizer | tf.keras.optimizers.Optimizer"
"""An optimizer of either Keras."""

Rate: TypeAlias = (
    "float | keras.optimizers.schedules.LearningRateSchedule | Callable[[], tf.Tensor]"
)
"""A learning rate: a number, a schedule, or a function."""

Initializer: TypeAlias = "str | Callable[..., tf.Tensor]"
"""What makes the first value of a slot, or its name."""

_Base: Any = object  # Each Keras has a base of its own, which subclasses name.


class AnyOptimizer(_Base):
    """Base of the parts of optimizers that are the same over any Keras.

    An optimizer names the parts before its base of the Keras.
    """


class WrapperBody(AnyOptimizer):
    """The parts of optimizers around another one that are the same over any Keras."""

    _keras: ClassVar[Any] = keras
    _INNER: ClassVar[str] = "opt"  # The first argument: the other optimizer.

    @classmethod
    def from_config(
        cls, config: Mapping[str, object], custom_objects: Mapping[str, object] | None = None
    ) -> Self:
        """Returns the optimizer that `get_config` describes."""
        arguments: dict[str, Any] = dict(config)
        inner = cls._keras.saving.deserialize_keras_object(
            arguments.pop(cls._INNER), custom_objects=custom_objects
        )
        return cls(inner, **arguments)


class IpuOptimizerBody(AnyOptimizer):
    """The parts of `IpuOptimizerBase` that are the same over any Keras."""

    _STAGES: ClassVar[int] = 1

    def __init__(
        self,
        name: str,
        optimizer_compute_precisions: Sequence[DType] = (tf.float32,),
        outline_apply_gradients: bool = False,
        outline_apply_gradients_kwargs: Mapping[str, object] | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.opt_dtypes = tuple(floating_dtype(dtype) for dtype in optimizer_compute_precisions)
        if len(self.opt_dtypes) != self._STAGES:
            raise ValueError(
                f"{type(self).__name__} computes in {self._STAGES} stage(s): "
                "`optimizer_compute_precisions` must have one dtype for each. "
                f"Received: optimizer_compute_precisions={optimizer_compute_precisions!r}."
            )
        self.outline_apply_gradients = outline_apply_gradients
        self.outline_apply_gradients_kwargs = dict(outline_apply_gradients_kwargs or {})

    def get_slot_dtype(self, var: Variable, slot_name: str) -> DType:
        """Returns the dtype of a variable's slot.

        Args:
            var: A trainable variable.
            slot_name: The optimizer's name of the slot.
        """
        del slot_name
        return var.dtype

    def add_slot_with_dtype(
        self,
        var: Variable,
        slot_name: str,
        dtype: DType | None,
        initializer: Initializer = "zeros",
    ) -> keras.Variable:
        """Returns the result of `add_slot` with a dtype; see there."""
        return self.add_slot(var, slot_name, initializer=initializer, dtype=dtype)

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make this optimizer."""
        return {
            **super().get_config(),
            "optimizer_compute_precisions": [dtype.name for dtype in self.opt_dtypes],
            "outline_apply_gradients": self.outline_apply_gradients,
            "outline_apply_gradients_kwargs": self.outline_apply_gradients_kwargs,
        }


class IpuOptimizerBase(IpuOptimizerBody, keras.optimizers.Optimizer):
    """An optimizer with selectable dtypes of its slots and its arithmetic.

    A subclass names this class before the Keras optimizer whose slots it uses. Its `_SLOTS` maps
    Keras' names of the slots to its own.

    Args:
        name: Name of the optimizer.
        optimizer_compute_precisions: Dtypes of the stages of the update.
        outline_apply_gradients: Whether the device shares the code of the update among variables.
            This affects memory only; the numbers stay the same.
        outline_apply_gradients_kwargs: Options of the outlining.
        **kwargs: Arguments of the Keras optimizer.

    Raises:
        ValueError: The number of precisions is wrong, or one is not a floating type.
    """

    _SLOTS: ClassVar[Mapping[str, str]] = {}

    @functools.cached_property
    def _slots(self) -> dict[tuple[Hashable, str], keras.Variable]:
        """The slots by their variable and their name."""
        return {}

    def add_slot(
        self,
        var: Variable,
        slot_name: str,
        initializer: Initializer = "zeros",
        shape: Sequence[int] | None = None,
        dtype: DType | None = None,
    ) -> keras.Variable:
        """Returns a variable's slot; makes it if there is none of that name.

        Args:
            var: A trainable variable.
            slot_name: Name of the slot.
            initializer: Keras initializer of the slot.
            shape: Shape of the slot; the shape of `var` if None.
            dtype: Dtype of the slot; the result of `get_slot_dtype` if None.
        """
        key = key_in(self, var), slot_name
        if key not in self._slots:
            owner = getattr(var, "path", var.name).replace("/", "_").replace(":", "_")
            self._slots[key] = self.add_variable(
                shape=var.shape if shape is None else shape,
                initializer=initializer,
                dtype=dtype_name(dtype or self.get_slot_dtype(var, slot_name) or var.dtype),
                name=f"{owner}_{slot_name}",
            )
        return self._slots[key]

    def get_slot(self, var: Variable, slot_name: str) -> keras.Variable:
        """Returns a variable's slot.

        Args:
            var: A trainable variable.
            slot_name: Name of the slot.

        Raises:
            ValueError: There is no such slot.
        """
        key = key_in(self, var), slot_name
        if key not in self._slots:
            raise ValueError(
                f"Optimizer '{self.name}' has no slot '{slot_name}' for variable '{var.name}'. "
                f"Its slots are {self.get_slot_names()}, made when it is built with its variables."
            )
        return self._slots[key]

    def get_slot_names(self) -> list[str]:
        """Returns the names of the existing slots, in order of creation."""
        return list(dict.fromkeys(name for _, name in self._slots))

    def add_variable_from_reference(
        self,
        reference_variable: Variable,
        name: str | None = None,
        initializer: Initializer = "zeros",
    ) -> keras.Variable:
        """Returns a variable that belongs to another: a slot if `name` is Keras' name of a slot."""
        slot_name = self._SLOTS.get(name or "")
        if slot_name is None:
            return super().add_variable_from_reference(reference_variable, name, initializer)
        return self.add_slot(reference_variable, slot_name, initializer)


def floating_dtype(dtype: DType) -> tf.DType:
    """Returns a floating type of the IPU.

    Args:
        dtype: float16 or float32, as a TensorFlow or NumPy type or by name.

    Raises:
        ValueError: It is another dtype.
    """
    try:
        type_ = tf.as_dtype(dtype)
    except TypeError:
        type_ = None
    if type_ not in (tf.float16, tf.float32):
        raise ValueError(f"The dtype must be tf.float16 or tf.float32. Received: {dtype!r}.")
    return type_


def slot_dtype_name(dtype: DType | None) -> str | None:
    """Returns the name of a slot's dtype; None stands for the dtype of the variable."""
    return None if dtype is None else floating_dtype(dtype).name


def dtype_name(dtype: DType) -> str:
    """Returns the name of a dtype."""
    return tf.as_dtype(dtype).name


def dense(gradient: tf.Tensor | tf.IndexedSlices) -> tf.Tensor:
    """Returns a gradient as a dense tensor, also a sparse gradient of an embedding."""
    return tf.convert_to_tensor(gradient)
