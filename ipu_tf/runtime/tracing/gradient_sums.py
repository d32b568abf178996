"""Sums of gradients as the optimizers behind wrappers take them."""

from __future__ import annotations

import tensorflow as tf

_STOCK = tf.compat.v1.train.Optimizer


def in_optimizer_type(total: tf.Tensor, variable: tf.Variable, optimizer: object) -> tf.Tensor:
    """Returns a sum of gradients in the type in which an optimizer takes it.

    An optimizer whose class applies gradients itself gets the type of the sums; the operations of
    TensorFlow's and Keras' optimizers take the type of the variable alone.

    Args:
        total: The sum, a tensor.
        variable: The variable.
        optimizer: An optimizer, or one that wraps it.
    """
    while hasattr(optimizer, "wrapped"):
        optimizer = optimizer.wrapped
    is_stock = type(optimizer).__module__.startswith("tensorflow.")
    if not isinstance(optimizer, _STOCK) or is_stock:
        return tf.cast(total, variable.dtype)
    applies_itself = type(optimizer).apply_gradients is not _STOCK.apply_gradients
    return total if applies_itself else tf.cast(total, variable.dtype)
