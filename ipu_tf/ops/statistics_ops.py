"""Histograms of tensors."""

from __future__ import annotations

import tensorflow as tf

_FLOATS = (tf.float16, tf.float32)


@tf.autograph.experimental.do_not_convert
def fixed_width_bins(inputs: tf.Tensor, n_bins: int) -> tf.Tensor:
    """Returns `n_bins` evenly spaced levels over the range of `inputs`.

    Args:
        inputs: Values of rank 1.
        n_bins: Number of levels, at least 1.

    Returns:
        Levels from the least value of `inputs` to the greatest, in its dtype, shape [n_bins].
    """
    inputs = tf.convert_to_tensor(inputs)
    return tf.linspace(tf.reduce_min(inputs), tf.reduce_max(inputs), n_bins)


@tf.autograph.experimental.do_not_convert
def histogram_normalize(hist: tf.Tensor) -> tf.Tensor:
    """Returns a histogram divided by its sum, in its own dtype and shape.

    The histogram of no values has no shares: its quotients are NaN.

    Args:
        hist: Counts of shape [bins].
    """
    hist = tf.convert_to_tensor(hist)
    return hist / tf.reduce_sum(hist, axis=0)


@tf.autograph.experimental.do_not_convert
def histogram(inputs: tf.Tensor, levels: tf.Tensor, absolute_of_input: bool = False) -> tf.Tensor:
    """Returns the numbers of values between neighbouring levels.

    Bin 0 counts the values below `levels[0]`, bin i those from `levels[i - 1]` up to but not
    including `levels[i]`, and the last bin all others, including NaN.

    Args:
        inputs: Values, float16 or float32 of rank 1.
        levels: n levels in ascending order, float16 or float32 of rank 1.
        absolute_of_input: Whether to count magnitudes.

    Returns:
        n + 1 counts, float32.

    Raises:
        ValueError: A tensor has another dtype or rank.
    """
    inputs, levels = tf.convert_to_tensor(inputs), tf.convert_to_tensor(levels)
    for name, tensor in (("inputs", inputs), ("levels", levels)):
        _check_dtype("histogram", name, tensor)
        _check_rank("histogram", name, tensor)
    # float32 holds every float16 value.
    values, edges = tf.cast(inputs, tf.float32), tf.cast(levels, tf.float32)
    if absolute_of_input:
        values = tf.abs(values)
    below = tf.reduce_sum(tf.cast(values[:, tf.newaxis] < edges, tf.float32), axis=0)
    count = tf.cast(tf.size(values), tf.float32)
    return tf.concat([below, [count]], axis=0) - tf.concat([[0.0], below], axis=0)


@tf.autograph.experimental.do_not_convert
def histogram_update(
    hist: tf.Tensor, inputs: tf.Tensor, levels: tf.Tensor, absolute_of_input: bool = False
) -> tf.Tensor:
    """Returns a histogram with the counts of further values added.

    Args:
        hist: n + 1 counts, float32.
        inputs: Values, float16 or float32 of rank 1.
        levels: n levels in ascending order, float16 or float32 of rank 1.
        absolute_of_input: Whether to count magnitudes.

    Returns:
        n + 1 counts, float32.

    Raises:
        ValueError: A tensor has another dtype or rank, or the histogram does not have n + 1 bins.
    """
    hist, levels = tf.convert_to_tensor(hist), tf.convert_to_tensor(levels)
    if hist.dtype != tf.float32:
        raise ValueError(
            "histogram_update: hist must be of float32 type. Received: hist of "
            f"dtype {hist.dtype.name}."
        )
    _check_rank("histogram_update", "hist", hist)
    _check_rank("histogram_update", "levels", levels)
    if hist.shape[0] != levels.shape[0] + 1:
        raise ValueError(
            "histogram_update: hist and levels shapes are incompatible. For n levels, hist must "
            f"have n+1 elements. Received: hist of shape {hist.shape}, levels of shape "
            f"{levels.shape}."
        )
    return hist + histogram(inputs, levels, absolute_of_input)


def _check_dtype(op: str, name: str, tensor: tf.Tensor) -> None:
    if tensor.dtype not in _FLOATS:
        raise ValueError(
            f"{op}: only float16 and float32 types are supported; tf.cast it. "
            f"Received: {name} of dtype {tensor.dtype.name}."
        )


def _check_rank(op: str, name: str, tensor: tf.Tensor) -> None:
    if tensor.shape.rank != 1:
        raise ValueError(
            f"{op} expects rank-1 tensor inputs; tf.reshape it to [-1]. "
            f"Received: {name} of shape {tensor.shape}."
        )
