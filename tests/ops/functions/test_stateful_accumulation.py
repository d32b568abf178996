"""Sums of gradients over executions, and the updates that wait for them, against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

import ipu_tf
from ipu_tf import loops
from ipu_tf.ops.functions.stateful_accumulation import (
    ipu_stateful_gradient_accumulate as accumulate,
)

V1 = tf.compat.v1.train
GRADIENTS = np.array([[1.0, -2.0], [3.0, 0.5], [0.25, 4.0], [-1.0, 1.0], [2.0, 2.0]], "float32")


@pytest.fixture
def strategy():
    strategy = ipu_tf.IPUStrategy()
    with strategy.scope():
        yield strategy


@pytest.mark.slow
def test_the_sum_comes_in_the_last_execution_and_zeros_before(strategy):
    @tf.function
    def run():
        def body(index, found):
            total = accumulate(tf.gather(GRADIENTS, index), 2)
            return index + 1, tf.tensor_scatter_nd_update(found, [[index]], [2.0 * total])

        return loops.repeat(5, body, [tf.constant(0), tf.zeros((5, 2))])[1]

    pairs = 2 * (GRADIENTS[:4:2] + GRADIENTS[1:4:2])
    zero = np.zeros(2)
    np.testing.assert_array_equal(strategy.run(run), [zero, pairs[0], zero, pairs[1], zero])
    # The fifth gradient was kept.
    expected = 2 * (GRADIENTS[4] + GRADIENTS[0])
    np.testing.assert_array_equal(strategy.run(run)[0], expected)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(
    ("optimizer", "momentum", "nesterov"),
    [
        (V1.MomentumOptimizer(0.5, 0.9), 0.9, False),
        (V1.GradientDescentOptimizer(0.5), 0.0, False),
        (V1.MomentumOptimizer(0.5, 0.9, use_nesterov=True), 0.9, True),
    ],
)
def test_updates_wait_for_the_sum(strategy, optimizer, momentum, nesterov):
    weights = tf.Variable([1.0, 1.0])

    @tf.function
    def run():
        def body(index):
            total = accumulate(tf.gather(GRADIENTS, index), num_mini_batches=2)
            # As a script does that adds weight decay after it.
            update = optimizer.apply_gradients([(total / 2.0 + 0.1 * weights, weights)])
            return index + 1, update

        return loops.repeat(4, body, [tf.constant(0)])

    strategy.run(run)
    expected, velocity = np.ones(2), np.zeros(2)
    for first in (0, 2):
        gradient = GRADIENTS[first : first + 2].sum(0) / 2 + 0.1 * expected
        velocity = momentum * velocity + gradient
        step = gradient + momentum * velocity if nesterov else velocity
        expected = expected - 0.5 * step
    np.testing.assert_allclose(weights, expected, rtol=1e-6, atol=1e-6)


def test_other_updates_and_arguments_are_refused(strategy):
    weights, adam = tf.Variable([1.0, 1.0]), V1.AdamOptimizer()

    @tf.function
    def run():
        return adam.apply_gradients([(accumulate(tf.ones(2), 2), weights)])

    with pytest.raises(ValueError, match="ResourceApplyAdam takes a gradient of ipu_stateful"):
        strategy.run(run)
    with pytest.raises(
        ValueError, match="must be a positive integer. Received: num_mini_batches=0"
    ):
        accumulate(tf.ones(2), 0)
    with tf.Graph().as_default(), pytest.raises(ValueError, match=r"static shape. Received: shape"):
        accumulate(tf.compat.v1.placeholder(tf.float32, [None]), 2)
