"""Gradients of the joined ops of batch normalization.

A tape needs them if it records a function that was traced, and joined, before. Importing this
module registers them with TensorFlow.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

Gradients = tuple[tf.Tensor, ...]


@tf.RegisterGradient("IpuMoments")
def _moments(op: Any, of_mean: tf.Tensor, of_variance: tf.Tensor) -> tf.Tensor:
    (x,), (mean, _) = op.inputs, op.outputs
    rows = tf.cast(tf.size(x) // tf.shape(x)[-1], x.dtype)
    return of_mean / rows + 2.0 * of_variance / rows * (x - mean)


@tf.RegisterGradient("IpuColumnDots")
def _column_dots(op: Any, of_sum: tf.Tensor, of_dot: tf.Tensor) -> Gradients:
    x, dy = op.inputs
    return of_dot * dy, of_sum + of_dot * x


@tf.RegisterGradient("IpuNormGradient")
def _norm_gradient(op: Any, grad: tf.Tensor) -> Gradients:
    x, dy, scale, mean, of_variance, of_mean = op.inputs
    rows = float(op.get_attr("rows"))
    slope = 2.0 * of_variance / rows
    return (
        grad * slope,
        grad * scale,
        _of_vector(grad * dy, scale),
        _of_vector(-grad * slope, mean),
        _of_vector(2.0 / rows * grad * (x - mean), of_variance),
        _of_vector(grad / rows, of_mean),
    )


def _of_vector(terms: tf.Tensor, vector: tf.Tensor) -> tf.Tensor:
    """Returns the sums of the rows of `terms`, in the shape of `vector`."""
    return tf.reshape(tf.reduce_sum(terms, axis=list(range(terms.shape.rank - 1))), vector.shape)
