"""Sums over the first dimensions of a tensor, by an op of ours."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from tests.runtime.execution.test_fusion import gradients_of, live_types, random, traced


@pytest.fixture
def strategy():
    return IPUStrategy(enable_keras_extensions=False)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((40, 50, 4, 16), [0, 1]), ((700, 99), 0), ((70, 33, 31), [-3]), ((70, 9, 200), [1, 0])],
)
def test_a_sum_over_first_dimensions(strategy, shape, axes, keeps):
    x = random(*shape)
    function = traced(strategy, lambda x: tf.reduce_sum(x, axes, keepdims=keeps), [x])
    assert "IpuColumnSums" in live_types(function)
    assert "Sum" not in live_types(function)
    exact = np.sum(x.numpy().astype(np.float64), tuple(np.reshape(axes, -1)), keepdims=keeps)
    np.testing.assert_allclose(function(x), exact, rtol=1e-6, atol=1e-6 * np.abs(exact).max())


def test_the_gradient_of_a_broadcast_bias(strategy):
    def fn(x, b):
        return gradients_of(lambda x, b: tf.sin(x + b), (x, b))

    operands = [random(40, 50, 4, 16), random(4, 16, seed=1)]
    function = traced(strategy, fn, operands)
    assert "IpuColumnSums" in live_types(function)
    for ours, stock in zip(function(*operands), fn(*operands), strict=True):
        np.testing.assert_allclose(ours, stock, rtol=1e-5, atol=1e-4)


OTHER_SUMS = {
    "of few elements": ((40, 50), tf.float32, {"axis": 0}),
    "to one column": ((70000, 1), tf.float32, {"axis": 0}),
    "to many columns": ((4, 20000), tf.float32, {"axis": 0}),
    "over the last dimension": ((700, 100), tf.float32, {"axis": 1}),
    "over all dimensions": ((700, 100), tf.float32, {"axis": [0, 1]}),
    "of float16": ((700, 100), tf.float16, {"axis": 0}),
    "of integers": ((700, 100), tf.int32, {"axis": 0}),
}


@pytest.mark.parametrize("name", OTHER_SUMS)
def test_other_sums_stay(strategy, name):
    shape, dtype, arguments = OTHER_SUMS[name]
    x = tf.cast(100 * random(*shape), dtype)
    function = traced(strategy, lambda x: tf.reduce_sum(x, **arguments), [x])
    assert "Sum" in live_types(function)
    assert "IpuColumnSums" not in live_types(function)
