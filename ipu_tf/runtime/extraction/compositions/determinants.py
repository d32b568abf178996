"""Determinants from the pivots of Gaussian elimination with partial pivoting, as in LAPACK."""

from __future__ import annotations

import tensorflow as tf

from ipu_tf.runtime.extraction.compositions.resizing import CompositionAttributes


def determinant(attributes: CompositionAttributes, matrices: tf.Tensor) -> tf.Tensor:
    """Returns the result of MatrixDeterminant."""
    del attributes
    pivots, sign = _eliminate(matrices)
    return tf.reshape(sign * tf.reduce_prod(pivots, 1), tf.shape(matrices)[:-2])


def log_determinant(
    attributes: CompositionAttributes, matrices: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the results of LogMatrixDeterminant: the sign and the logarithm of its magnitude."""
    del attributes
    pivots, sign = _eliminate(matrices)
    sign *= tf.reduce_prod(tf.sign(pivots), 1)
    logarithm = tf.cast(tf.reduce_sum(tf.math.log(tf.abs(pivots)), 1), matrices.dtype)
    shape = tf.shape(matrices)[:-2]
    return tf.reshape(sign, shape), tf.reshape(logarithm, shape)


def _eliminate(matrices: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the pivots [matrices, rows] of matrices, and the signs of the row permutations."""
    size = tf.shape(matrices)[-1]
    rows = tf.range(size)
    count = tf.reduce_prod(tf.shape(matrices)[:-2])

    def step(
        i: tf.Tensor, left: tf.Tensor, pivots: tf.Tensor, sign: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        column = tf.gather(left, i, axis=2)
        largest = tf.argmax(tf.where(rows >= i, tf.abs(column), -1.0), 1, tf.int32)[:, tf.newaxis]
        order = tf.where(tf.equal(rows, i), largest, tf.where(tf.equal(rows, largest), i, rows))
        left = tf.gather(left, order, batch_dims=1)
        row, column = tf.gather(left, i, axis=1), tf.gather(left, i, axis=2)
        pivot = tf.gather(row, [i], axis=1)
        factors = tf.math.divide_no_nan(tf.where(rows > i, column, tf.zeros_like(column)), pivot)
        left -= factors[:, :, tf.newaxis] * row[:, tf.newaxis, :]
        pivots = tf.where(tf.equal(rows, i), pivot, pivots)
        sign = tf.where(tf.equal(largest[:, 0], i), sign, -sign)
        return i + 1, left, pivots, sign

    start = (
        tf.constant(0),
        tf.reshape(matrices, [count, size, size]),
        tf.zeros([count, size], matrices.dtype),
        tf.ones([count], matrices.dtype),
    )
    _, _, pivots, sign = tf.while_loop(lambda i, *_: i < size, step, start, maximum_iterations=size)
    return pivots, sign
