"""Slots of optimizers of tf_keras, in any dtype."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from tf_keras.optimizers import legacy

from ipu_tf.internals.structures import DType
from ipu_tf.internals.tf_keras import add_slot_of
from ipu_tf.keras.optimizers.ipu_optimizer_base import Initializer


class OptimizerWithSlots(legacy.Optimizer):
    """An optimizer of Keras 2 whose slots have the dtypes that `get_slot_dtype` returns."""

    def add_slot(
        self,
        var: tf.Variable,
        slot_name: str,
        initializer: Initializer = "zeros",
        shape: Sequence[int] | None = None,
        dtype: DType | None = None,
    ) -> tf.Variable:
        """Returns a variable's slot; makes it if there is none of that name.

        Args:
            var: A trainable variable.
            slot_name: Name of the slot.
            initializer: Initializer of the slot.
            shape: Shape of the slot; the shape of `var` if None.
            dtype: Dtype of the slot; the result of `get_slot_dtype` if None.
        """
        chosen = tf.as_dtype(dtype or self.get_slot_dtype(var, slot_name) or var.dtype)
        return add_slot_of(self, var, slot_name, initializer=initializer, shape=shape, dtype=chosen)
