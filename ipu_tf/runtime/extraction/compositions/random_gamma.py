"""Samples gamma distributions by rejection, with the method of Marsaglia and Tsang.

The samples have the distribution of TensorFlow's, but different values.
"""

from __future__ import annotations

import tensorflow as tf

from ipu_tf.runtime.extraction.compositions.resizing import CompositionAttributes

_MOST_ROUNDS = 64
"""A round rejects less than one sample in twenty."""


def stateless(
    attributes: CompositionAttributes,
    shape: tf.Tensor,
    key: tf.Tensor,
    counter: tf.Tensor,
    algorithm: tf.Tensor,
    alpha: tf.Tensor,
) -> tf.Tensor:
    """Returns the result of StatelessRandomGammaV3."""
    del attributes
    zeros = tf.zeros(shape)
    shape_parameter = zeros + tf.cast(alpha, tf.float32)
    # For alpha below one, a sample for alpha + 1 is scaled down.
    is_small = shape_parameter < 1.0
    shift = tf.where(is_small, shape_parameter + 1.0, shape_parameter) - 1.0 / 3.0

    def drawn(stream: tf.Tensor, op: type) -> tf.Tensor:
        own_counter = counter + tf.stack([tf.zeros([], tf.uint64), tf.cast(stream, tf.uint64)])
        return op(shape=shape, key=key, counter=own_counter, alg=algorithm, dtype=tf.float32)

    def attempt(
        count: tf.Tensor, is_done: tf.Tensor, samples: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        normal = drawn(2 * count + 1, tf.raw_ops.StatelessRandomNormalV2)
        uniform = drawn(2 * count + 2, tf.raw_ops.StatelessRandomUniformV2)
        cube = (1.0 + normal / tf.sqrt(9.0 * shift)) ** 3
        limit = 0.5 * normal * normal + shift - shift * cube + shift * tf.math.log(cube)
        accepts = (cube > 0.0) & (tf.math.log(1.0 - uniform) < limit)
        samples = tf.where(accepts & ~is_done, shift * cube, samples)
        return count + 1, is_done | accepts, samples

    _, _, samples = tf.while_loop(
        lambda count, accepted, samples: ~tf.reduce_all(accepted),
        attempt,
        (tf.constant(0), zeros > 0.0, zeros),
        maximum_iterations=_MOST_ROUNDS,
    )
    boost = (1.0 - drawn(tf.constant(0), tf.raw_ops.StatelessRandomUniformV2)) ** (
        1.0 / shape_parameter
    )
    return tf.cast(tf.where(is_small, samples * boost, samples), alpha.dtype)
