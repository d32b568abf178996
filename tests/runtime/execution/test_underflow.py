"""Values of float16 operations that are 0 although they should not be."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.ops.kernels import library
from ipu_tf.runtime.execution.underflow import can_lose, lost

TINY = 2.0**-15


def made(operation, *inputs):
    """The node of an operation, and its result."""
    with tf.Graph().as_default() as graph:
        tensor = operation(*map(tf.constant, inputs))
        with tf.compat.v1.Session(graph=graph) as session:
            return tensor.op.node_def, session.run(tensor)


def half(*values):
    return np.array(values, np.float16)


def test_a_product_that_becomes_zero():
    inputs = half(TINY, 1.0, TINY, 0.0), half(TINY, 2.0, TINY / 4, TINY)
    node, result = made(tf.multiply, *inputs)
    found = lost(node, inputs, result)
    assert (found.count, found.flat) == (2, 0)
    np.testing.assert_array_equal(found.exact, [2.0**-30, 2.0, 2.0**-32, 0.0])
    assert (found.smallest, found.largest) == (2.0**-32, 2.0**-30)
    assert found.factor(largest_gradient=1.0) == 2.0**8
    assert found.kept_count(2.0**8) == 2
    assert found.kept_count(2.0**6) == 1


def test_the_factor_leaves_room_for_the_largest_gradient():
    inputs = half(TINY), half(TINY)
    node, result = made(tf.multiply, *inputs)
    found = lost(node, inputs, result)
    assert found.factor(largest_gradient=4096.0) == 8.0
    assert found.factor(largest_gradient=65504.0) == 1.0
    assert found.kept_count(8.0) == 0


def test_a_cast():
    inputs = (np.array([1e-9, 1.0, 0.0], np.float32),)
    node, result = made(lambda x: tf.cast(x, tf.float16), *inputs)
    found = lost(node, inputs, result)
    assert (found.count, found.flat) == (1, 0)
    assert found.exact[0] == np.float32(1e-9)


def test_sums_that_cancel_lose_nothing():
    row = half(3.0, -3.0, TINY * 0)[np.newaxis]
    node, result = made(tf.matmul, row, half(0.3, 0.3, 1.0)[:, np.newaxis])
    assert result == 0
    assert lost(node, (row, half(0.3, 0.3, 1.0)[:, np.newaxis]), result) is None


def test_a_tile_op_and_masks():
    a, b = half(TINY, 0.0).reshape(2, 1), half(TINY).reshape(1, 1)
    node, result = made(lambda a, b: library.load().ipu_mat_mul(a, b, plan=[1] * 5), a, b)
    found = lost(node, (a, b), result)
    assert (found.count, found.flat) == (1, 0)


@pytest.mark.parametrize(
    ("name", "operation", "expected"),
    [
        ("gradient_tape/net/mul", tf.multiply, True),
        ("gradients/net/mul", tf.multiply, True),
        ("net/mul", tf.multiply, False),
        ("gradient_tape/net/draw", lambda a, b: tf.random.uniform([2], dtype=tf.float16), False),
    ],
)
def test_gradients_of_float16_can_lose_values(name, operation, expected):
    node, _ = made(operation, half(1.0), half(1.0))
    node.name = name
    assert can_lose(node) is expected


def test_what_cannot_be_computed_again_is_not_known():
    node, result = made(tf.multiply, half(TINY), half(TINY))
    assert lost(node, (half(1.0, 2.0), half(1.0, 2.0, 3.0)), result) is None
    assert lost(node, (half(1.0), half(1.0)), half(1.0)) is None
