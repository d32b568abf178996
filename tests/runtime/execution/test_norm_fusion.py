"""The ops of batch normalization, joined: the same values, gradients and costs."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from ipu_tf.ops.kernels import library
from ipu_tf.runtime.execution import fusion
from tests.ops.tile_cases import normals
from tests.runtime.execution.test_fusion import (
    gradients_of_squares,
    live_types,
    traced,
    types_behind,
)

ACTIVATIONS = [None, tf.nn.relu, tf.nn.relu6]
NORMS = {"IpuMoments", "IpuScaleShift", "IpuColumnDots", "IpuNormGradient"}


@pytest.fixture
def strategy():
    return IPUStrategy(enable_keras_extensions=False)


def batch_norm(x, gamma, beta, activation=None):
    """As Keras computes it in training."""
    axes = list(range(x.shape.rank - 1))
    mean, variance = tf.nn.moments(x, axes)
    y = tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3)
    return activation(y) if activation else y


def operands_of(*shape, dtype="float32"):
    x = normals(0, shape, dtype) * 2 + 1
    return [
        tf.constant(v) for v in (x, normals(1, shape[-1:], dtype), normals(2, shape[-1:], dtype))
    ]


def with_gradients(x, gamma, beta, activation=None):
    with tf.GradientTape() as tape:
        tape.watch((x, gamma, beta))
        y = batch_norm(x, gamma, beta, activation)
        loss = tf.reduce_sum(y * tf.sin(y))
    return y, *tape.gradient(loss, (x, gamma, beta))


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("shape", [(6, 5), (3, 7, 17), (2, 4, 5, 33), (40, 30, 64)])
def test_values_and_gradients_are_those_of_float64(strategy, shape, activation):
    operands = operands_of(*shape)
    fn = functools.partial(with_gradients, activation=activation)
    function = traced(strategy, fn, operands)
    assert set(live_types(function)) >= NORMS
    assert not {"SquaredDifference", "Relu", "Relu6"} & set(live_types(function))
    exact = fn(*[tf.cast(value, tf.float64) for value in operands])
    for ours, stock, wanted in zip(function(*operands), fn(*operands), exact, strict=True):
        error = np.abs(np.subtract(ours, wanted)).max()
        stock_error = np.abs(np.subtract(stock, wanted)).max()
        assert error <= 2 * stock_error + 1e-6 * np.abs(wanted).max()


@pytest.mark.slow
@pytest.mark.parametrize("activation", ACTIVATIONS[1:])
def test_gradients_by_a_tape_outside(strategy, activation):
    operands = operands_of(2, 4, 5, 6)
    step = tf.function(functools.partial(with_gradients, activation=activation))
    strategy.run(step, args=operands)  # Traced, and joined, while nothing is recorded.

    ours = gradients_of_squares(lambda *a: strategy.run(step, args=a), operands)
    plain = gradients_of_squares(step.python_function, operands)
    for mine, stock in zip(ours, plain, strict=True):
        np.testing.assert_allclose(mine, stock, rtol=1e-3, atol=1e-4 * np.abs(stock).max())


GRADIENTS = {
    "moments": (lambda x: library.load().ipu_moments(x, rank=3), [(2, 3, 5)]),
    "moments of vectors": (
        lambda x: library.load().ipu_moments(x, rank=2, keep_dims=False),
        [(4, 5)],
    ),
    "dots": (lambda x, dy: library.load().ipu_column_dots(x, dy, rank=3), [(2, 3, 5)] * 2),
    "scale": (
        lambda x, a, b: library.load().ipu_scale_shift(x, a, b, relu=True),
        [(2, 3, 5), (5,), (1, 1, 5)],
    ),
    "scale up to six": (
        lambda x, a, b: library.load().ipu_scale_shift(9.0 * x, a, b, relu6=True),
        [(2, 3, 5), (5,), (1, 1, 5)],
    ),
    "gradient": (
        lambda *operands: library.load().ipu_norm_gradient(*operands, rows=6),
        [(2, 3, 5), (2, 3, 5), (5,), (1, 1, 5), (1, 1, 5), (5,)],
    ),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_joined_ops_are_differences(name):
    op, shapes = GRADIENTS[name]
    operands = [tf.constant(normals(seed, shape)) for seed, shape in enumerate(shapes)]

    def loss(*values):
        results = tf.nest.flatten(op(*values))
        return sum(tf.reduce_sum(tf.sin(result)) for result in results)

    with tf.GradientTape() as tape:
        tape.watch(operands)
        value = loss(*operands)
    for index, gradient in enumerate(tape.gradient(value, operands)):
        direction = normals(index + 20, gradient.shape)

        def moved(step, index=index, direction=direction):
            values = list(operands)
            values[index] = values[index] + step * direction
            return float(loss(*values))

        difference = (moved(1e-2) - moved(-1e-2)) / 2e-2
        np.testing.assert_allclose(np.sum(gradient * direction), difference, rtol=2e-2, atol=2e-2)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("other", ["before", "after", "norm", "row"])
def test_the_sum_that_ends_a_residual_block(strategy, other, relu):
    x, gamma, beta = operands_of(2, 4, 5, 6)

    def block(x, gamma, beta):
        added = {
            "before": lambda: x,
            "after": lambda: tf.sin(x),
            "norm": lambda: batch_norm(x**2, beta, gamma),
            "row": lambda: x[:1],
        }
        total = tf.add(batch_norm(x, gamma, beta), added[other]())
        return tf.nn.relu(total) if relu else total

    function = traced(strategy, block, (x, gamma, beta))
    types = types_behind(tensor.op for tensor in function.graph.outputs)
    is_joined = other != "row"
    assert types["IpuScaleShiftAdd"] == is_joined
    assert types["IpuScaleShift"] == (other in {"norm", "row"})
    assert ("Relu" in types) == (relu and not is_joined)
    stock = block(x, gamma, beta)
    np.testing.assert_allclose(function(x, gamma, beta), stock, rtol=1e-4, atol=1e-4)


def test_two_norms_of_one_gradient_are_both_joined(strategy):
    """As at the end of a residual block with a projection."""
    x, gamma, beta = operands_of(2, 4, 5, 6)

    def step(x, gamma, beta):
        with tf.GradientTape() as tape:
            tape.watch((gamma, beta))
            y = batch_norm(x, gamma, beta) + batch_norm(x**2, beta, gamma)
            loss = tf.reduce_sum(y**2)
        return tape.gradient(loss, (gamma, beta))

    function = traced(strategy, step, (x, gamma, beta))
    for ours, stock in zip(function(x, gamma, beta), step(x, gamma, beta), strict=True):
        np.testing.assert_allclose(ours, stock, rtol=1e-4, atol=1e-3)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("read", ["SquaredDifference", "Mul"])
def test_what_is_read_elsewhere_stays(strategy, read):
    def fn(x, gamma, beta):
        y = batch_norm(x, gamma, beta)
        graph = tf.compat.v1.get_default_graph()
        pieces = [op for op in graph.get_operations() if op.type == read]
        return y, next(op.outputs[0] for op in pieces if op.outputs[0].shape == x.shape)

    operands = operands_of(2, 4, 5, 6)
    types = live_types(traced(strategy, fn, operands))
    assert read in types
    assert ("IpuScaleShift" in types) == (read == "SquaredDifference")
    assert ("IpuMoments" in types) == (read == "Mul")


@pytest.mark.fast_cells(2)
@pytest.mark.parametrize("change", ["float16", "rows", "unequal axes"])
def test_what_is_not_the_same_stays(strategy, change):
    x, gamma, beta = operands_of(4, 6, dtype="float16" if change == "float16" else "float32")

    def fn(x, gamma, beta):
        axis = 1 if change == "rows" else 0
        squares = tf.math.squared_difference(x, tf.reduce_mean(x, axis, keepdims=True))
        variance = tf.reduce_mean(squares, 1 if change == "unequal axes" else axis, keepdims=True)
        return x * gamma + beta if change == "float16" else x * variance, variance

    assert not NORMS & set(live_types(traced(strategy, fn, (x, gamma, beta))))


@pytest.mark.slow
def test_the_program_costs_what_it_costs_in_pieces(monkeypatch, strategy):
    operands = operands_of(2, 4, 5, 6)

    def program(own):
        own.run(tf.function(with_gradients), args=operands)
        return own.report().programs[0].device

    joined = program(strategy)
    monkeypatch.setattr(fusion, "fuse", lambda graph, outputs, **_: outputs)
    plain = program(IPUStrategy(enable_keras_extensions=False))
    assert [(s.name, s.cycles) for s in joined.steps] == [(s.name, s.cycles) for s in plain.steps]


def test_layers_of_keras_are_joined():
    own = IPUStrategy()
    with own.scope():
        keras.utils.set_random_seed(1)
        inputs = keras.Input((4, 4, 3))
        x = keras.layers.Conv2D(8, 3, padding="same", use_bias=False)(inputs)
        x = keras.layers.ReLU()(keras.layers.BatchNormalization()(x))
        model = keras.Model(inputs, keras.layers.Dense(2)(keras.layers.Flatten()(x)))
        model.compile("sgd", "mse")
    data = tf.constant(normals(0, (4, 4, 4, 3))), tf.constant(normals(1, (4, 2)))
    step = tf.function(lambda data: own.run(model.train_step, args=(data,)))
    function = step.get_concrete_function(data)
    read = {tensor.op.type for op in function.graph.get_operations() for tensor in op.inputs}
    assert read >= NORMS


WRONG = {
    "a vector": ([(5,)], lambda x: library.load().ipu_moments(x, rank=1), "must have rows"),
    "another shape": (
        [(4, 5), (4, 6)],
        lambda x, dy: library.load().ipu_column_dots(x, dy, rank=2),
        r"input 1 must have the shape of x, \[4,5\]. Received: \[4,6\]",
    ),
    "another addend": (
        [(4, 5), (5,), (5,), (5,)],
        lambda *operands: library.load().ipu_scale_shift_add(*operands),
        r"input 1 must have the shape of x, \[4,5\]. Received: \[5\]",
    ),
    "another vector": (
        [(4, 5), (5,), (4,)],
        lambda *operands: library.load().ipu_scale_shift(*operands),
        r"input 2 must have one value for each of 5 channels. Received the shape \[4\]",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_shapes_are_checked(name):
    shapes, op, message = WRONG[name]
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        op(*[tf.constant(normals(0, shape)) for shape in shapes])


@pytest.mark.parametrize("activation", ["relu", "relu6"])
def test_what_is_not_finite_is_as_in_stock(activation):
    x = tf.constant([[np.nan, np.inf, -np.inf, 6.0, 5.9999995, -1e-45, 3e38, 7.0]])
    ones, zeros = tf.ones(x.shape[1:]), tf.zeros(x.shape[1:])
    ours = library.load().ipu_scale_shift(x, ones, zeros, **{activation: True})
    np.testing.assert_array_equal(ours, getattr(tf.nn, activation)(x))
