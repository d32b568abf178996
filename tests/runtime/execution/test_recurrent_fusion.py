"""The loops of recurrent layers, joined: the same values, gradients and costs."""

import functools
import importlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config
from ipu_tf.ops.kernels import library
from tests.ops.tile_cases import normals
from tests.runtime.execution.test_fusion import live_types, traced
from tests.runtime.execution.test_joined_programs import compiled, steps, unjoined

CELLS = {"lstm": ("IpuLstm", keras.layers.LSTM), "gru": ("IpuGru", keras.layers.GRU)}
SHAPES = [(1, 2, 3, 5), (4, 5, 3, 17), (9, 10, 33, 32)]
"""Steps, batch, features, units."""


@pytest.fixture
def strategy():
    return IPUStrategy(enable_keras_extensions=False)


def layer_of(cell, shape, dtype="float32", **options):
    """Returns a layer with weights of its own, as numbers of float64."""
    _, batch, features, units = shape
    options = {"return_state": True, "bias_initializer": "glorot_uniform"} | options
    layer = CELLS[cell][1](units, dtype=dtype, **options)
    layer.build((batch, 4, features))
    for seed, variable in enumerate(layer.weights):
        variable.assign(normals(seed, variable.shape, "float64") / 2)
    return layer


def inputs_of(shape):
    count, batch, features, _ = shape
    return tf.constant(normals(9, (batch, count, features)))


def with_gradients(layer, x, read=lambda results: results):
    """Returns the outputs and states of a layer, and the gradients of some."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        results = layer(x)
        loss = sum(tf.reduce_sum(tf.sin(2 * value)) for value in read(results))
    return *results, *tape.gradient(loss, [x, *layer.trainable_variables])


def assert_close(results, stock, exact):
    for ours, other, wanted in zip(results, stock, exact, strict=True):
        error, stock_error = (np.abs(np.subtract(v, wanted)).max() for v in (ours, other))
        assert error <= 4 * stock_error + 1e-6 * (1 + np.abs(wanted).max())


READS = {"all": lambda results: results, "outputs": lambda r: r[:1], "states": lambda r: r[1:]}


CASES = [
    ("lstm", SHAPES[1], True, "all"),
    ("gru", SHAPES[1], False, "all"),
    ("lstm", SHAPES[1], False, "all"),
    ("gru", SHAPES[1], True, "all"),
    *(("lstm", shape, True, "outputs") for shape in SHAPES[::2]),
    *(("gru", shape, False, "states") for shape in SHAPES[::2]),
]


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(("cell", "shape", "sequences", "read"), CASES)
def test_values_and_gradients_are_those_of_float64(strategy, cell, shape, sequences, read):
    make = functools.partial(layer_of, cell, shape, return_sequences=sequences)
    x, layer = inputs_of(shape), make()
    fn = functools.partial(with_gradients, layer, read=READS[read])
    function = traced(strategy, fn, [x])
    types = live_types(function)
    assert {CELLS[cell][0], f"{CELLS[cell][0]}Grad"} <= set(types)
    assert not {"While", "StatelessWhile"} & set(types)
    stock = tf.function(fn, autograph=False)(x)
    exact = with_gradients(make("float64"), tf.cast(x, tf.float64), READS[read])
    assert_close(function(x), stock, exact)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("sequences", [True, False])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_layers_of_keras_2(strategy, cell, sequences):
    """Their loops have no limit beside the steps, which are a size of their inputs."""
    layers = pytest.importorskip("tf_keras").layers
    internals = importlib.import_module("ipu_tf.internals.tf_keras")
    x = inputs_of(SHAPES[1])
    make = {"gru": layers.GRU, "lstm": layers.LSTM}[cell]
    layer = make(17, return_sequences=sequences, return_state=True)
    internals.forgo_library_kernels(layer)
    layer(x)
    for seed, variable in enumerate(layer.weights):
        variable.assign(normals(seed, variable.shape) / 2)
    fn = functools.partial(with_gradients, layer)
    function = traced(strategy, fn, [x])
    types = live_types(function)
    assert {CELLS[cell][0], f"{CELLS[cell][0]}Grad"} <= set(types)
    assert not {"While", "StatelessWhile"} & set(types)
    for ours, stock in zip(function(x), tf.function(fn, autograph=False)(x), strict=True):
        np.testing.assert_allclose(ours, stock, rtol=1e-4, atol=1e-5)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("cell", CELLS)
def test_prediction(strategy, cell):
    x, layer = inputs_of(SHAPES[1]), layer_of(cell, SHAPES[1], return_state=False)
    function = traced(strategy, layer, [x])
    assert CELLS[cell][0] in live_types(function)
    np.testing.assert_allclose(function(x), layer(x), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_backwards_with_a_state_that_is_given(strategy):
    x, h = inputs_of(SHAPES[1]), tf.constant(normals(3, (5, 17)))
    layer = layer_of("gru", SHAPES[1], go_backwards=True)

    def fn(x, h):
        with tf.GradientTape() as tape:
            tape.watch((x, h))
            loss = tf.reduce_sum(layer(x, initial_state=h)[0] ** 2)
        return tape.gradient(loss, (x, h))

    function = traced(strategy, fn, [x, h])
    assert "IpuGruGrad" in live_types(function)
    for ours, stock in zip(function(x, h), fn(x, h), strict=True):
        np.testing.assert_allclose(ours, stock, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_weights_of_a_layer_on_data(strategy):
    """Nothing asks for the gradients of the inputs, and one weight is frozen."""
    x, layer = inputs_of(SHAPES[1]), layer_of("lstm", SHAPES[1])
    weights = layer.weights[:2]

    def fn(x):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([weight.value for weight in weights])
            loss = tf.reduce_sum(layer(x)[0] ** 2)
        return tape.gradient(loss, weights)

    function = traced(strategy, fn, [x])
    assert "IpuLstmGrad" in live_types(function)
    for ours, stock in zip(function(x), fn(x), strict=True):
        np.testing.assert_allclose(ours, stock, rtol=1e-4, atol=1e-5)


OTHERS = {
    "mask": ("lstm", {}, {"mask": np.arange(4) > np.zeros((5, 1))}),
    "dropout": ("gru", {"dropout": 0.5}, {"training": True}),
    "other activation": ("lstm", {"recurrent_activation": "hard_sigmoid"}, {}),
    "reset before": ("gru", {"reset_after": False}, {}),
    "float16": ("lstm", {"dtype": "float16"}, {}),
}


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("case", OTHERS)
def test_other_loops_stay(strategy, case):
    cell, options, call = OTHERS[case]
    layer = layer_of(cell, SHAPES[1], **options)
    function = traced(strategy, lambda x: layer(x, **call)[0], [inputs_of(SHAPES[1])])
    types = live_types(function)
    assert "While" in types
    assert not {"IpuLstm", "IpuGru"} & set(types)


def test_steps_that_may_be_run_once_more_stay():
    cfg, layer = IPUConfig(), layer_of("gru", SHAPES[0])
    cfg.simulator.trace_numerics = True
    cfg.configure_ipu_system()
    try:
        own = IPUStrategy(enable_keras_extensions=False)
        function = traced(own, lambda x: layer(x)[0], [inputs_of(SHAPES[0])])
    finally:
        config.reset_ipu_configuration()
    assert "While" in live_types(function)


def test_a_variable_that_changes_before_the_loop_is_read_in_it(strategy):
    """Keras reads the weights before the loop, too, but those of the loop count."""
    x, layer = inputs_of(SHAPES[1]), layer_of("lstm", SHAPES[1])
    before, loop = layer(x)[0], tf.while_loop

    def doubled(*args, **kwargs):
        layer.weights[0].assign(2 * layer.weights[0])
        return loop(*args, **kwargs)

    def fn(x):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(tf, "while_loop", doubled)
            return layer(x)[0]

    function = traced(strategy, fn, [x])
    assert "IpuLstm" not in live_types(function)
    assert np.abs(function(x) - before).max() > 1e-2


@pytest.mark.slow
def test_gradients_by_a_tape_outside(strategy):
    x, layer = inputs_of(SHAPES[1]), layer_of("gru", SHAPES[1])
    step = tf.function(functools.partial(with_gradients, layer), autograph=False)
    strategy.run(step, args=(x,))  # Traced, and joined, while nothing is recorded.

    def second(run):
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = sum(tf.reduce_sum(value**2) for value in run(x))
        return tape.gradient(total, x)

    ours = second(lambda x: strategy.run(step, args=(x,)))
    stock = second(functools.partial(with_gradients, layer))
    np.testing.assert_allclose(ours, stock, rtol=1e-3, atol=1e-4 * np.abs(stock).max())


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.slow
def test_a_function_costs_what_it_cost_before(monkeypatch, cell):
    x, layer = inputs_of(SHAPES[1]), layer_of(cell, SHAPES[1])
    fn = functools.partial(with_gradients, layer)
    joined = traced(IPUStrategy(enable_keras_extensions=False), fn, [x])
    plain = unjoined(monkeypatch, fn, [x])
    results, program = compiled(joined, x)
    _, expected = compiled(plain, x)
    assert steps(program) == steps(expected)
    for again, first in zip(results, joined(x), strict=True):
        np.testing.assert_array_equal(again, first)


@pytest.mark.parametrize(
    ("operands", "message"),
    [
        ({"x": (2, 3, 5)}, "x must have 3 steps. Received: 2"),
        ({"x": (3, 5)}, "x must have steps, batch and features"),
        ({"kernel": (4, 8)}, r"`kernel` must have the shape \[5,8\]. Received: \[4,8\]"),
        ({"h": (3, 4)}, r"`h` must have the shape \[3,2\]. Received: \[3,4\]"),
        ({"bias": (6,)}, r"`bias` must have the shape \[8\]. Received: \[6\]"),
    ],
)
def test_errors_of_shapes(operands, message):
    shapes = {
        "x": (3, 3, 5),
        "h": (3, 2),
        "c": (3, 2),
        "kernel": (5, 8),
        "recurrent": (2, 8),
        "bias": (8,),
    }
    values = {name: tf.ones(shape) for name, shape in (shapes | operands).items()}
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=message):
        library.load().ipu_lstm(**values, steps=3)
