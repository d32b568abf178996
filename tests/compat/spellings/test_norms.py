"""Batch norms of TensorFlow in half precision."""

import numpy as np
import pytest
import tensorflow as tf


@pytest.mark.parametrize("is_training", [True, False])
def test_batch_norms_take_scales_of_half_precision(of_scripts, is_training):
    x = tf.constant(np.random.default_rng(2).normal(size=(4, 3, 3, 2)), tf.float16)
    vectors = [tf.constant(v, tf.float16) for v in ([2, 0.5], [0.25, -1], [0.5, 1], [2, 0.25])]
    norm = tf.compat.v1.nn.fused_batch_norm

    def computed(dtype):
        values = [tf.cast(vector, dtype) for vector in vectors]
        with tf.GradientTape() as tape:
            tape.watch([x, *values[:2]])
            moments = {} if is_training else {"mean": values[2], "variance": values[3]}
            results = norm(x, *values[:2], **moments, is_training=is_training)
        return results, tape.gradient(results[0], [x, *values[:2]])

    results, gradients = computed(tf.float16)
    expected, expected_gradients = computed(tf.float32)
    assert [r.dtype for r in (*results, *gradients)] == [tf.float16] * 6
    for found, wanted in zip((*results, *gradients), (*expected, *expected_gradients), strict=True):
        np.testing.assert_array_equal(found, tf.cast(wanted, tf.float16))


def test_norms_of_halves_are_not_joined_with_the_relu_after_them(of_scripts):
    norm = tf.compat.v1.nn.fused_batch_norm
    with tf.Graph().as_default() as graph:
        for dtype in (tf.float16, tf.float32):
            x = tf.compat.v1.placeholder(dtype, [2, 4, 4, 8])
            one = tf.ones([8])
            tf.nn.relu(norm(x, one, one, mean=one, variance=one, is_training=False)[0])
    readers = [op.inputs[0].op.type for op in graph.get_operations() if op.type == "Relu"]
    assert readers == ["EnsureShape", "FusedBatchNormV3"]
