"""Chains of element-wise ops, joined: of optimizers and of the gradient of softmax."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from ipu_tf.ops.kernels import library
from ipu_tf.runtime.execution import fusion
from tests.ops.tile_cases import normals
from tests.runtime.execution.test_fusion import live_types, traced

CHAINS = {"IpuScaledDifference", "IpuAdamStep"}


@pytest.fixture
def strategy():
    return IPUStrategy(enable_keras_extensions=False)


def adam(gradient, mean, square, rate):
    mean = mean + (gradient - mean) * 0.1
    square = square + (tf.square(gradient) - square) * 0.001
    return mean, square, mean * rate / (tf.sqrt(square) + 1e-7)


def softmax_gradient(scores, grad):
    with tf.GradientTape() as tape:
        tape.watch(scores)
        y = tf.nn.softmax(scores)
    return tape.gradient(y, scores, grad)


def positive(*shape, seed=0):
    return tf.constant(np.abs(normals(seed, shape)) + 0.1)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("shape", [(3,), (5, 7), (2, 3, 4, 33), (300, 300)])
def test_an_update_of_adam_has_the_bits_of_its_pieces(strategy, shape):
    moments = [tf.constant(normals(seed, shape)) for seed in range(2)]
    operands = [*moments, positive(*shape, seed=2), tf.constant(0.003)]
    function = traced(strategy, adam, operands)
    assert set(live_types(function)) >= CHAINS
    assert not {"Sub", "Square", "Sqrt", "RealDiv"} & set(live_types(function))
    for ours, stock in zip(function(*operands), adam(*operands), strict=True):
        np.testing.assert_array_equal(ours, stock)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("shape", [(4, 1), (5, 7), (2, 3, 4, 33), (70, 40, 128)])
def test_the_gradient_of_a_softmax_is_that_of_float64(strategy, shape):
    operands = [tf.constant(normals(seed, shape)) for seed in range(2)]
    function = traced(strategy, softmax_gradient, operands)
    assert "IpuSoftmaxGrad" in live_types(function)
    assert not {"Sub", "Sum"} & set(live_types(function))
    exact = softmax_gradient(*[tf.cast(value, tf.float64) for value in operands])
    np.testing.assert_allclose(function(*operands), exact, rtol=1e-5, atol=2e-7)


GRADIENTS = {
    "difference": (
        lambda a, b, f: library.load().ipu_scaled_difference(a, b, f),
        lambda a, b, f: (a - b) * f,
        [(3, 5), (3, 5), ()],
    ),
    "difference of a square": (
        lambda a, b, f: library.load().ipu_scaled_difference(a, b, f, square=True),
        lambda a, b, f: (tf.square(a) - b) * f,
        [(3, 5), (3, 5), ()],
    ),
    "step": (
        lambda *operands: library.load().ipu_adam_step(*operands),
        lambda mean, square, rate, epsilon: mean * rate / (tf.sqrt(square) + epsilon),
        [(3, 5), (3, 5), (), ()],
    ),
    "softmax": (
        lambda y, dy: library.load().ipu_softmax_grad(y, dy),
        lambda y, dy: (dy - tf.reduce_sum(dy * y, -1, keepdims=True)) * y,
        [(3, 5), (3, 5)],
    ),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_joined_ops_are_those_of_their_pieces(name):
    op, pieces, shapes = GRADIENTS[name]
    operands = [positive(*shape, seed=seed) for seed, shape in enumerate(shapes)]

    def gradients(fn):
        with tf.GradientTape() as tape:
            tape.watch(operands)
            value = tf.sin(fn(*operands))
        return value, *tape.gradient(value, operands)

    for ours, stock in zip(gradients(op), gradients(pieces), strict=True):
        np.testing.assert_allclose(ours, stock, rtol=1e-4, atol=1e-6)


UNJOINED = {
    "float16": lambda a, b: (
        (tf.cast(a, tf.float16) - tf.cast(b, tf.float16)) * tf.cast(a, tf.float16)
    ),
    "other shapes": lambda a, b: (a - b[:1]) * 2.0,
    "no last dimension": lambda a, b: (a - tf.reduce_sum(a * b, 0, keepdims=True)) * b,
    "another sum": lambda a, b: (a - tf.reduce_sum(a * a, -1, keepdims=True)) * b,
    "no root": lambda a, b: a * 2.0 / (b + 1.0),
}


@pytest.mark.fast_cells(2)
@pytest.mark.parametrize("name", UNJOINED)
def test_what_is_not_the_same_stays(strategy, name):
    operands = [tf.constant(normals(seed, (4, 6))) for seed in range(2)]
    types = set(live_types(traced(strategy, UNJOINED[name], operands)))
    assert not types & {*CHAINS, "IpuSoftmaxGrad"}


def test_what_is_read_elsewhere_stays(strategy):
    def fn(a, b):
        difference = a - b
        return difference, difference * 2.0

    operands = [tf.constant(normals(seed, (4, 6))) for seed in range(2)]
    assert "IpuScaledDifference" not in live_types(traced(strategy, fn, operands))


@pytest.mark.slow
def test_adam_of_keras_is_joined_at_the_same_cost(monkeypatch):
    data = tf.constant(normals(0, (4, 6))), tf.constant(normals(1, (4, 2)))

    def step():
        own = IPUStrategy()
        with own.scope():
            keras.utils.set_random_seed(1)
            model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2)])
            model.compile("adam", "mse")
        train = tf.function(lambda data: own.run(model.train_step, args=(data,)))
        function = train.get_concrete_function(data)
        for _ in range(3):
            function(data)
        read = {tensor.op.type for op in function.graph.get_operations() for tensor in op.inputs}
        steps = [(s.name, s.cycles) for s in own.report().programs[0].device.steps]
        return read, steps, model.get_weights()

    read, steps, weights = step()
    monkeypatch.setattr(fusion, "fuse", lambda graph, outputs, **_: outputs)
    _, plain_steps, plain_weights = step()
    assert read >= CHAINS
    assert steps == plain_steps
    for ours, plain in zip(weights, plain_weights, strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-6)


def test_shapes_are_checked():
    a, b = tf.zeros((2, 3)), tf.zeros((3, 2))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"have one shape. Received: \[2,3\]"):
        library.load().ipu_softmax_grad(a, b)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"input 2 is a scalar. .*\[2,3\]"):
        library.load().ipu_scaled_difference(a, a, a)
