"""Products joined with bias and ReLU, filter gradients with those of the bias: same values."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy


@pytest.fixture
def strategy():
    return IPUStrategy(enable_keras_extensions=False)


def random(*shape, seed=0):
    return tf.random.stateless_normal(shape, seed=[seed, 7])


def layer(kind, relu):
    """Returns a layer and its operands."""

    def convolution(x, w, b):
        y = tf.nn.bias_add(tf.nn.conv2d(x, w, 1, "SAME"), b)
        return tf.nn.relu(y) if relu else y

    def grouped(x, w, b):
        y = tf.nn.bias_add(tf.nn.conv2d(x, w[:, :, :2], 1, "VALID"), b)
        return tf.nn.relu(y) if relu else y

    def dense(x, w, b):
        y = tf.nn.bias_add(tf.matmul(x[0, 0], w[0, 0]), b)
        return tf.nn.relu(y) if relu else y

    operands = (random(2, 6, 5, 4, seed=1), random(3, 3, 4, 6, seed=2), random(6, seed=3))
    return {"conv": convolution, "grouped": grouped, "dense": dense}[kind], operands


def traced(strategy, fn, operands):
    specs = [tf.TensorSpec.from_tensor(value) for value in operands]
    return tf.function(lambda *a: strategy.run(fn, args=a)).get_concrete_function(*specs)


def live_types(function):
    """Returns the types of the ops that a function's outputs need."""
    waiting = [tensor.op for tensor in function.graph.outputs]
    seen = {}
    while waiting:
        op = waiting.pop()
        if op.name not in seen:
            seen[op.name] = op.type
            waiting += [tensor.op for tensor in op.inputs]
    return sorted(set(seen.values()))


FUSED = {"conv": "IpuConv2DBias", "grouped": "IpuConv2DBias", "dense": "IpuMatMulBias"}


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("kind", FUSED)
def test_bias_and_relu(strategy, kind, relu):
    fn, operands = layer(kind, relu)
    function = traced(strategy, fn, operands)
    types = live_types(function)
    assert FUSED[kind] in types
    assert not {"BiasAdd", "Relu"} & set(types)
    np.testing.assert_allclose(function(*operands), fn(*operands), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("kind", ["conv", "dense"])
def test_gradients_inside(strategy, kind, relu):
    fn, operands = layer(kind, relu)

    def gradients(*operands):
        with tf.GradientTape() as tape:
            tape.watch(operands)
            y = fn(*operands) ** 2
        return tape.gradient(y, operands)

    function = traced(strategy, gradients, operands)
    if kind == "conv":
        assert "IpuConv2DBackpropFilterWithBias" in live_types(function)
        assert "BiasAddGrad" not in live_types(function)
    for ours, stock in zip(function(*operands), gradients(*operands), strict=True):
        np.testing.assert_allclose(ours, stock, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("kind", ["conv", "dense"])
def test_gradients_by_a_tape_outside(strategy, kind, relu):
    fn, operands = layer(kind, relu)
    step = tf.function(fn)
    strategy.run(step, args=operands)  # Traced, and joined, while nothing is recorded.

    def gradients(run):
        with tf.GradientTape() as tape:
            tape.watch(operands)
            y = run(*operands)
        return tape.gradient(y, operands)

    ours = gradients(lambda *a: strategy.run(step, args=a))
    for mine, stock in zip(ours, gradients(fn), strict=True):
        np.testing.assert_allclose(mine, stock, rtol=1e-4, atol=1e-4)


def test_second_order_gradient_through_a_joined_filter_gradient(strategy):
    fn, (x, w, b) = layer("conv", relu=False)

    def first(x, w, b):
        with tf.GradientTape() as tape:
            tape.watch((w, b))
            y = fn(x, w, b) ** 2
        return tape.gradient(y, (w, b))

    def second(run):
        with tf.GradientTape() as tape:
            tape.watch(x)
            dw, db = run(x, w, b)
            total = tf.reduce_sum(dw) + tf.reduce_sum(db**2)
        return tape.gradient(total, x)

    step = tf.function(first)
    strategy.run(step, args=(x, w, b))
    ours = second(lambda *a: strategy.run(step, args=a))
    stock = second(first)
    np.testing.assert_allclose(ours, stock, rtol=1e-4, atol=1e-4 * float(tf.norm(stock)))


def test_what_is_read_elsewhere_stays(strategy):
    def fn(x, w, b):
        product = tf.nn.conv2d(x, w, 1, "SAME")
        return product, tf.nn.relu(tf.nn.bias_add(product, b))

    _, operands = layer("conv", relu=True)
    function = traced(strategy, fn, operands)
    assert {"IpuConv2D", "BiasAdd", "Relu"} <= set(live_types(function))


def test_float16_is_not_joined(strategy):
    fn, operands = layer("conv", relu=True)
    operands = [tf.cast(value, tf.float16) for value in operands]
    assert "BiasAdd" in live_types(traced(strategy, fn, operands))


def test_the_report_lists_the_product(strategy):
    fn, operands = layer("conv", relu=True)
    traced(strategy, fn, operands)
    assert [op.op_type for op in strategy.report().tile_ops] == ["Conv2D"]
