"""Sums of values over the micro-batches of an execution, as values that a loop carries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ipu_tf.gradient_accumulation import GradientAccumulationReductionMethod as Method


def dtype_of(value: tf.Tensor, option: object) -> tf.DType:
    """Returns the type in which values are summed.

    Args:
        value: One of them, or the variable that they are gradients of.
        option: A type, a function from `value` to one, or None for the type of `value`.

    Raises:
        ValueError: It is no floating point type.
    """
    choice = option(value) if callable(option) and not _is_type(option) else option
    if choice is None:
        return tf.as_dtype(value.dtype)
    dtype = tf.as_dtype(choice)
    if not dtype.is_floating:
        raise ValueError(
            f"The type of an accumulator must be a floating point type. Received: {dtype.name}."
        )
    return dtype


def zeros(shape: tf.TensorShape, dtype: tf.DType) -> tf.Tensor:
    """Returns the sum of no values."""
    return tf.zeros(shape, dtype)


def added(
    totals: Sequence[tf.Tensor],
    values: Sequence[tf.Tensor],
    method: Method,
    index: tf.Tensor,
    count: tf.Tensor,
) -> list[tf.Tensor]:
    """Returns sums with the values of one more micro-batch.

    Args:
        totals: The sums of the micro-batches before it.
        values: Its values.
        method: How they are reduced.
        index: int32 scalar, number of the micro-batch from 0.
        count: int32 scalar, number of all micro-batches.
    """
    add = _ADDED[method]
    return [
        add(total, tf.cast(value, total.dtype), index, count)
        for total, value in zip(totals, values, strict=True)
    ]


def scaled(value: tf.Tensor, method: Method, count: int) -> tf.Tensor:
    """Returns what a micro-batch adds to a sum, for its cost on the device."""
    return value if method is Method.SUM else value * tf.constant(1 / count, value.dtype)


def _sum(total: tf.Tensor, value: tf.Tensor, index: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    del index, count
    return total + value


def _mean(total: tf.Tensor, value: tf.Tensor, index: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    del index
    return total + value * tf.cast(1.0 / tf.cast(count, tf.float32), value.dtype)


def _running_mean(
    total: tf.Tensor, value: tf.Tensor, index: tf.Tensor, count: tf.Tensor
) -> tf.Tensor:
    del count
    before = tf.cast(index, tf.float32)
    share = 1.0 / (before + 1.0)
    old_share = total * tf.cast(before * share, total.dtype)
    return old_share + value * tf.cast(share, value.dtype)


_ADDED: dict[Method, Callable[..., tf.Tensor]] = {
    Method.SUM: _sum,
    Method.MEAN: _mean,
    Method.RUNNING_MEAN: _running_mean,
}


def _is_type(option: Any) -> bool:
    """Returns whether an option is a type: NumPy's are callable, too."""
    try:
        tf.as_dtype(option)
    except TypeError:
        return False
    return True
