"""Ops of an attention, joined: transposes with products, softmax with dropout, and gradients."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config
from ipu_tf.ops.kernels import library
from ipu_tf.runtime.execution import fusion
from tests.ops.tile_cases import normals
from tests.runtime.execution.test_fusion import dropout, gradients_of, live_types, traced
from tests.runtime.execution.test_joined_programs import compiled, steps, unjoined

JOINED = {"IpuTransposedMatMul", "IpuSoftmaxDropout", "IpuSoftmaxDropoutGrad"}
PIECES = {"IpuBatchMatMul", "Transpose", "Softmax", "IpuMaskedScale", "IpuSoftmaxGrad"}


@pytest.fixture
def strategy():
    return IPUStrategy(enable_keras_extensions=False)


def attention(query, key, value):
    """The products of Keras, of `[batch, tokens, heads, features]`."""
    heads = tf.matmul(tf.transpose(key, [0, 2, 1, 3]), tf.transpose(query, [0, 2, 3, 1]))
    weights = dropout(tf.nn.softmax(tf.transpose(heads, [0, 1, 3, 2])))
    return tf.transpose(tf.matmul(weights, tf.transpose(value, [0, 2, 1, 3])), [0, 2, 1, 3])


def step(query, key, value):
    return attention(query, key, value), *gradients_of(attention, (query, key, value))


def operands_of(tokens, heads, features, dtype="float32"):
    shape = (2, tokens, heads, features)
    return [tf.constant(normals(seed, shape, dtype, scale=0.3)) for seed in range(3)]


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("shape", [(5, 2, 3), (16, 1, 8), (33, 3, 17), (128, 4, 64)])
def test_an_attention_and_its_gradients_are_those_of_float64(strategy, shape):
    operands = operands_of(*shape)
    function = traced(strategy, step, operands)
    types = set(live_types(function))
    assert types >= JOINED
    assert not PIECES & types
    kept = dropout(tf.ones((2, shape[1], shape[0], shape[0]))) * 0.7

    def exact(query, key, value):
        scores = tf.einsum("bqhd,bkhd->bhqk", query, key)
        weights = tf.nn.softmax(scores) * tf.cast(kept, tf.float64) / 0.7
        return tf.einsum("bhqk,bkhd->bqhd", weights, value)

    exact_operands = [tf.cast(value, tf.float64) for value in operands]
    wanted = exact(*exact_operands), *gradients_of(exact, exact_operands)
    for ours, theirs in zip(function(*operands), wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5 * np.abs(theirs).max())


ORDERS = {
    "operands": lambda x, y: tf.matmul(
        tf.transpose(x, [0, 2, 1, 3]), tf.transpose(y, [0, 2, 3, 1])
    ),
    "result": lambda x, y: tf.transpose(
        tf.matmul(tf.reshape(x, (2, 3, 5, 4)), tf.reshape(y, (2, 3, 5, 4)), transpose_b=True),
        [0, 1, 3, 2],
    ),
}


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("order", ["operands", "result"])
def test_products_have_the_bits_of_their_pieces(monkeypatch, strategy, order, dtype):
    operands = operands_of(5, 3, 4, dtype)[:2]
    function = traced(strategy, ORDERS[order], operands)
    assert live_types(function).count("IpuTransposedMatMul") == 1
    assert "IpuBatchMatMul" not in live_types(function)
    pieces = unjoined(monkeypatch, ORDERS[order], operands)
    np.testing.assert_array_equal(function(*operands), pieces(*operands))


def tied(x, weights, bias, grad):
    """Scores by the transposed matrix of an embedding, and all gradients."""
    with tf.GradientTape() as tape:
        tape.watch((x, weights))
        scores = tf.nn.bias_add(tf.matmul(x, tf.transpose(weights)), bias)
    return scores, *tape.gradient(scores, (x, weights), grad)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_products_by_a_transposed_matrix_have_the_bits_of_their_pieces(
    monkeypatch, strategy, dtype
):
    shapes = ((5, 24), (70, 24), (70,), (5, 70))
    operands = [tf.constant(normals(i, shape), dtype) for i, shape in enumerate(shapes)]
    function = traced(strategy, tied, operands)
    types = set(live_types(function))
    assert "IpuTransposedMatMul" in types
    assert not {"Transpose", "IpuMatMul", "IpuMatMulBias"} & types
    pieces = unjoined(monkeypatch, tied, operands)
    for ours, theirs in zip(function(*operands), pieces(*operands), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    (_, program), (_, expected) = (compiled(each, *operands) for each in (function, pieces))
    assert steps(program) == steps(expected)


UNJOINED = {
    "read elsewhere": lambda x, y: (
        (turned := tf.transpose(x, [0, 2, 1, 3])) * 2.0,
        tf.matmul(turned, tf.transpose(y, [0, 2, 3, 1]) + 1.0),
    ),
    "heads innermost": lambda x, y: tf.matmul(
        tf.transpose(x, [0, 3, 1, 2]), tf.transpose(y, [0, 3, 2, 1])
    ),
    "a shared matrix": lambda x, y: tf.matmul(
        tf.transpose(x, [0, 2, 1, 3]), tf.transpose(y[0, 0] + 1.0)
    ),
}


@pytest.mark.parametrize("name", UNJOINED)
def test_other_products_stay(strategy, name):
    function = traced(strategy, UNJOINED[name], operands_of(5, 3, 4)[:2])
    assert "IpuTransposedMatMul" not in live_types(function)


def test_products_that_round_by_chance_stay():
    cfg = IPUConfig()
    cfg.floating_point_behaviour.esr = config.StochasticRoundingBehaviour.ON
    cfg.configure_ipu_system()
    try:
        own = IPUStrategy(enable_keras_extensions=False)
        function = traced(own, ORDERS["operands"], operands_of(5, 3, 4, "float16")[:2])
    finally:
        config.reset_ipu_configuration()
    assert "IpuTransposedMatMul" not in live_types(function)


def test_a_product_that_is_read_before_its_transpose_stays(strategy):
    def fn(x, y):
        product = tf.matmul(x, y, transpose_b=True)
        return product, tf.transpose(product, [0, 1, 3, 2])

    assert "Transpose" in live_types(traced(strategy, fn, operands_of(5, 3, 4)[:2]))


def test_a_softmax_that_is_read_beside_its_dropout(strategy):
    def fn(x):
        y = tf.nn.softmax(x)
        return y, dropout(y)

    x = tf.constant(normals(0, (7, 9, 40), scale=30.0))
    function = traced(strategy, fn, [x])
    assert "IpuSoftmaxDropout" in live_types(function)
    for ours, stock in zip(function(x), fn(x), strict=True):
        np.testing.assert_allclose(ours, stock, rtol=1e-5, atol=1e-7)


def test_a_dropout_of_keras_2_is_joined(strategy):
    def fn(x):
        return tf.nn.dropout(tf.nn.softmax(x), 0.3)

    function = traced(strategy, fn, [tf.constant(normals(0, (5, 9)))])
    assert {"IpuSoftmaxDropout", "IpuStatefulDropoutMask"} <= set(live_types(function))


def test_a_dropout_of_another_mask_stays(strategy):
    def fn(x):
        y = tf.nn.softmax(x)
        return tf.where(y > 0.1, y * 2.0, 0.0)

    function = traced(strategy, fn, [tf.constant(normals(0, (5, 9)))])
    assert {"Softmax", "IpuMaskedScale"} <= set(live_types(function))


def test_a_dropout_whose_seed_reads_the_softmax_stays(strategy):
    def fn(x):
        y = tf.nn.softmax(x)
        seed = tf.cast(y[0, :2] * 100.0, tf.int32)
        return tf.nn.experimental.stateless_dropout(y, 0.3, seed=seed, rng_alg="philox")

    x = tf.constant(normals(0, (5, 9)))
    function = traced(strategy, fn, [x])
    assert "IpuSoftmaxDropout" not in live_types(function)
    np.testing.assert_allclose(function(x), fn(x), rtol=1e-5)


def test_a_gradient_of_dropout_that_is_read_elsewhere_stays(strategy):
    def fn(x, grad):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.nn.softmax(x)
            tape.watch(y)
            z = dropout(y)
        return tape.gradient(z, [x, y], grad)

    operands = [tf.constant(normals(seed, (5, 9))) for seed in range(2)]
    function = traced(strategy, fn, operands)
    assert {"IpuMaskedScale", "IpuSoftmaxGrad"} <= set(live_types(function))
    for ours, stock in zip(function(*operands), fn(*operands), strict=True):
        np.testing.assert_allclose(ours, stock, rtol=1e-5, atol=1e-6)


INF = np.inf
ROWS = {
    "infinite": [1.0, INF, 2.0],
    "all minus infinite": [-INF, -INF, -INF],
    "some minus infinite": [-INF, 3.0, -INF],
    "not a number": [1.0, np.nan, 2.0],
    "far below": [-1e9, 5.0, -90.0],
    "large": [3e38, 1e38, -3e38],
    "one": [7.0],
}


@pytest.mark.parametrize("repeats", [1, 8, 40])
@pytest.mark.parametrize("name", ROWS)
def test_rows_of_any_numbers(name, repeats):
    x = np.tile(np.array(ROWS[name], np.float32), (2, repeats))
    y, dropped = library.load().ipu_softmax_dropout(x, np.ones(x.shape, bool), 1.0)
    with np.errstate(invalid="ignore"):
        powers = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    np.testing.assert_allclose(y, powers / powers.sum(-1, keepdims=True), rtol=1e-6, atol=1e-37)
    np.testing.assert_array_equal(y, dropped)


@pytest.mark.parametrize("name", ["softmax", "gradient"])
def test_gradients_of_joined_ops_are_those_of_their_pieces(name):
    shape = (3, 7)
    mask = normals(5, shape) > 0
    ops = {
        "softmax": (
            lambda x, dy: library.load().ipu_softmax_dropout(x, mask, dy[0, 0]),
            lambda x, dy: (y := tf.nn.softmax(x), tf.where(mask, y, 0.0) * dy[0, 0]),
        ),
        "gradient": (
            lambda y, dy: library.load().ipu_softmax_dropout_grad(y, dy, mask, dy[0, 0]),
            lambda y, dy: (
                ((d := tf.where(mask, dy, 0.0) * dy[0, 0]) - tf.reduce_sum(d * y, -1, True)) * y
            ),
        ),
    }
    operands = [tf.constant(normals(seed, shape)) for seed in range(2)]

    def gradients(fn):
        with tf.GradientTape() as tape:
            tape.watch(operands)
            values = [tf.sin(value) for value in tf.nest.flatten(fn(*operands))]
        return *values, *tape.gradient(values, operands)

    for ours, stock in zip(*map(gradients, ops[name]), strict=True):
        np.testing.assert_allclose(ours, stock, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_gradients_by_a_tape_outside(strategy):
    operands = operands_of(5, 2, 3)
    function = tf.function(attention)
    strategy.run(function, args=operands)  # Traced, and joined, while nothing is recorded.
    ours = gradients_of(lambda *a: strategy.run(function, args=a), operands)
    for mine, stock in zip(ours, gradients_of(attention, operands), strict=True):
        np.testing.assert_allclose(mine, stock, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_function_costs_what_it_cost_before(monkeypatch):
    operands = operands_of(5, 2, 3)
    joined = traced(IPUStrategy(enable_keras_extensions=False), step, operands)
    plain = unjoined(monkeypatch, step, operands)
    (_, program), (_, expected) = compiled(joined, *operands), compiled(plain, *operands)
    assert steps(program) == steps(expected)


def test_an_attention_of_keras_is_joined_at_the_same_cost(monkeypatch):
    data = tf.constant(normals(0, (2, 5, 8))), tf.constant(normals(1, (2, 5, 8)))

    def train():
        own = IPUStrategy()
        with own.scope():
            keras.utils.set_random_seed(1)
            inputs = keras.Input((5, 8))
            outputs = keras.layers.MultiHeadAttention(2, 4, dropout=0.1)(inputs, inputs)
            model = keras.Model(inputs, outputs)
            model.compile("sgd", "mse")
        train_step = tf.function(lambda data: own.run(model.train_step, args=(data,)))
        function = train_step.get_concrete_function(data)
        function(data)
        read = {tensor.op.type for op in function.graph.get_operations() for tensor in op.inputs}
        costs = [(s.name, s.cycles) for s in own.report().programs[0].device.steps]
        return read, costs, model.get_weights()

    read, costs, weights = train()
    monkeypatch.setattr(fusion, "fuse", lambda graph, outputs, **_: outputs)
    _, plain_costs, plain_weights = train()
    assert read >= JOINED
    assert costs == plain_costs
    for ours, plain in zip(weights, plain_weights, strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-5, atol=1e-6)


def test_shapes_are_checked():
    x, kept = tf.zeros((2, 3)), tf.ones((3, 2), tf.bool)
    message = r"have one shape. Received: \[2,3\] and \[3,2\]"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        library.load().ipu_softmax_dropout(x, kept, 1.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        library.load().ipu_softmax_dropout_grad(x, x, kept, 1.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"a scalar. .* \[1\]"):
        library.load().ipu_softmax_dropout(x, tf.ones((2, 3), tf.bool), [1.0])
