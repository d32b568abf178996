"""Gaussian error linear units, joined: the same values, gradients and costs."""

import functools
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from ipu_tf.ops.kernels import library
from ipu_tf.runtime.execution import fusion
from tests.ops.tile_cases import normals
from tests.runtime.execution.test_fusion import live_types, traced

JOINED = {"IpuGelu", "IpuGeluGrad"}


@pytest.fixture
def strategy():
    return IPUStrategy(enable_keras_extensions=False)


def by_erf(x):
    return x * (0.5 * (1.0 + tf.math.erf(x / tf.cast(tf.sqrt(2.0), x.dtype))))


def by_powers(x):
    """As published scripts write it."""
    cubic = tf.constant(math.sqrt(2 / math.pi), x.dtype) * (x + 0.044715 * tf.pow(x, 3))
    return x * 0.5 * (1.0 + tf.tanh(cubic))


def by_products(x):
    factor = 0.7978845608 * (1 + 0.044715 * x * x)
    return 0.5 * x * (1 + tf.tanh(x * factor))


UNITS = {
    "erf": tf.nn.gelu,
    "tanh": functools.partial(tf.nn.gelu, approximate=True),
    "erf, written out": by_erf,
    "tanh, written out": by_powers,
    "tanh, by products": by_products,
}


def with_gradient(x, unit):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = unit(x)
        loss = tf.reduce_sum(tf.sin(y))
    return y, tape.gradient(loss, x)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("shape", [(3, 5), (7, 3, 33), (300, 1000)])
def test_values_and_gradients_are_those_of_float64(strategy, shape, unit):
    x = tf.constant(normals(0, shape) * 3)
    fn = functools.partial(with_gradient, unit=UNITS[unit])
    function = traced(strategy, fn, [x])
    assert set(live_types(function)) >= JOINED
    assert not {"Erf", "Erfc", "Tanh", "Exp", "TanhGrad"} & set(live_types(function))
    exact = fn(tf.cast(x, tf.float64))
    for ours, stock, wanted in zip(function(x), fn(x), exact, strict=True):
        error, stock_error = (np.abs(np.subtract(value, wanted)).max() for value in (ours, stock))
        assert error <= 2 * stock_error + 1e-6


@pytest.mark.parametrize("approximate", [False, True])
def test_all_numbers_are_those_of_the_function(approximate):
    x = np.linspace(-20, 20, 40001, dtype="float32")
    exact = tf.constant(x, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(exact)
        wanted = tf.nn.gelu(exact, approximate)
    y = library.load().ipu_gelu(x, approximate=approximate)
    slope = library.load().ipu_gelu_grad(x, np.ones_like(x), approximate=approximate)
    np.testing.assert_allclose(y, wanted, rtol=1e-6, atol=2e-7)
    np.testing.assert_allclose(slope, tape.gradient(wanted, exact), rtol=1e-6, atol=5e-7)
    if not approximate:  # The tail keeps its digits.
        tail = (x > -8) & (x < -1)
        np.testing.assert_allclose(y[tail], wanted[tail], rtol=2e-5)


@pytest.mark.parametrize("approximate", [False, True])
def test_numbers_without_bounds_are_those_of_the_pieces(approximate):
    x = tf.constant([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e30, -1e30, 40.0, -40.0])
    ours = library.load().ipu_gelu(x, approximate=approximate)
    np.testing.assert_array_equal(ours, tf.nn.gelu(x, approximate))


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
def test_gradients_by_a_tape_outside(strategy, unit):
    x = tf.constant(normals(0, (4, 9)))
    step = tf.function(functools.partial(with_gradient, unit=UNITS[unit]))
    strategy.run(step, args=(x,))  # Traced, and joined, while nothing is recorded.

    def second(run):
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = sum(tf.reduce_sum(value**2) for value in run(x))
        return tape.gradient(total, x)

    ours = second(lambda x: strategy.run(step, args=(x,)))
    np.testing.assert_allclose(ours, second(step.python_function), rtol=1e-4, atol=1e-5)


UNJOINED = {
    "of float16": lambda x: tf.nn.gelu(tf.cast(x, tf.float16)),
    "by a sigmoid": lambda x: x * tf.sigmoid(1.702 * x),
    "of another width": lambda x: 0.5 * x * (1 + tf.math.erf(0.71 * x)),
    "twice": lambda x: x * (1 + tf.math.erf(x * math.sqrt(0.5))),
    "of two tensors": lambda x: 0.5 * x * (1 + tf.math.erf(x[::-1] * math.sqrt(0.5))),
    "a tanh": tf.tanh,
}


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("name", UNJOINED)
def test_what_is_not_the_same_stays(strategy, name):
    x = tf.constant(normals(0, (4, 6)))
    fn = functools.partial(with_gradient, unit=UNJOINED[name])
    assert not JOINED & set(live_types(traced(strategy, fn, [x])))


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("read", ["Erfc", "Exp"])
def test_what_is_read_elsewhere_stays(strategy, read):
    def fn(x):
        results = with_gradient(x, tf.nn.gelu)
        graph = tf.compat.v1.get_default_graph()
        return *results, next(op.outputs[0] for op in graph.get_operations() if op.type == read)

    x = tf.constant(normals(0, (4, 6)))
    assert not JOINED & set(live_types(traced(strategy, fn, [x])))


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["erf", "tanh"])
def test_the_program_costs_what_it_costs_in_pieces(monkeypatch, strategy, unit):
    x = tf.constant(normals(0, (4, 6)))
    fn = functools.partial(with_gradient, unit=UNITS[unit])

    def steps(own):
        own.run(tf.function(fn), args=(x,))
        return [(s.name, s.layer, s.cycles) for s in own.report().programs[0].device.steps]

    joined = steps(strategy)
    monkeypatch.setattr(fusion, "fuse", lambda graph, outputs, **_: outputs)
    assert joined == steps(IPUStrategy(enable_keras_extensions=False))


def test_layers_of_keras_are_joined():
    own = IPUStrategy()
    with own.scope():
        inputs = keras.Input((3, 8))
        x = keras.layers.Dense(8, activation="gelu")(inputs)
        model = keras.Model(inputs, keras.layers.Dense(8)(x))
        model.compile("sgd", "mse")
    data = tf.constant(normals(0, (4, 3, 8))), tf.constant(normals(1, (4, 3, 8)))
    step = tf.function(lambda data: own.run(model.train_step, args=(data,)))
    function = step.get_concrete_function(data)
    assert {tensor.op.type for op in function.graph.get_operations() for tensor in op.inputs} >= (
        JOINED
    )
