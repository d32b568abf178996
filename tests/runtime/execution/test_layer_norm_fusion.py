"""The ops of layer normalization, joined: the same values, gradients and costs."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from ipu_tf.ops.kernels import library
from ipu_tf.runtime.execution import fusion
from tests.ops.tile_cases import normals
from tests.runtime.execution.test_fusion import gradients_of_squares, live_types, traced

JOINED = {"IpuLayerNorm", "IpuLayerNormGrad"}
PIECES = {"FusedBatchNormV3", "Rsqrt", "RsqrtGrad", "SquaredDifference", "StopGradient"}


@pytest.fixture
def strategy():
    return IPUStrategy(enable_keras_extensions=False)


def of_keras(x, gamma, beta, axes=(-1,), epsilon=1e-3):
    """As Keras computes it; gamma and beta are vectors of the columns' shape."""
    mean, variance = tf.nn.moments(x, axes, keepdims=True)
    shape = [1] * (x.shape.rank - len(axes)) + gamma.shape.as_list()
    gamma, beta = tf.reshape(gamma, shape), tf.reshape(beta, shape)
    inverse = tf.math.rsqrt(variance + epsilon) * gamma
    return x * inverse + (-mean * inverse + beta)


def of_tf_nn(x, gamma, beta, axes=(-1,), epsilon=1e-3):
    """As tf_keras computes it for a small epsilon."""
    mean, variance = tf.nn.moments(x, axes, keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, beta, gamma, epsilon)


def of_batch_norm(x, gamma, beta, axes=(-1,), epsilon=1e-3):
    """As tf_keras computes it else: each row is a channel."""
    if x.dtype != tf.float32 or len(axes) > 1:
        return of_tf_nn(x, gamma, beta, axes, epsilon)
    rows = x.shape.num_elements() // x.shape[-1]
    channels = tf.reshape(x, (1, rows, x.shape[-1], 1))
    y, *_ = tf.compat.v1.nn.fused_batch_norm(
        channels, tf.ones(rows), tf.zeros(rows), epsilon=epsilon, data_format="NCHW"
    )
    return tf.reshape(y, x.shape) * gamma + beta


FORMS = {"keras": of_keras, "tf.nn": of_tf_nn, "batch norm": of_batch_norm}


def operands_of(*shape, axes=1, dtype="float32"):
    columns = shape[len(shape) - axes :]
    x = normals(0, shape, dtype) * 2 + 1
    return [tf.constant(v) for v in (x, normals(1, columns, dtype), normals(2, columns, dtype))]


def with_gradients(x, gamma, beta, norm=of_keras, residual=False, **kwargs):
    with tf.GradientTape() as tape:
        tape.watch((x, gamma, beta))
        y = norm(x, gamma, beta, **kwargs)
        z = y + x if residual else y
        loss = tf.reduce_sum(z * tf.sin(z))
    return y, *tape.gradient(loss, (x, gamma, beta))


def assert_as_exact(fn, operands, found):
    """Checks that results are as near to those of float64 as stock's are."""
    exact = fn(*[tf.cast(value, tf.float64) for value in operands])
    for ours, stock, wanted in zip(found, fn(*operands), exact, strict=True):
        error, stock_error = (np.abs(np.subtract(value, wanted)).max() for value in (ours, stock))
        assert error <= 2 * stock_error + 1e-6 * np.abs(wanted).max()


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((6, 5), 1), ((3, 7, 17), 1), ((1, 4, 64), 1), ((3, 4, 5, 33), 2), ((5, 30, 300), 1)],
)
def test_values_and_gradients_are_those_of_float64(strategy, shape, axes, form, residual):
    operands = operands_of(*shape, axes=axes)
    fn = functools.partial(
        with_gradients, norm=FORMS[form], residual=residual, axes=tuple(range(-axes, 0))
    )
    function = traced(strategy, fn, operands)
    assert set(live_types(function)) >= JOINED
    assert not PIECES & set(live_types(function))
    assert_as_exact(fn, operands, function(*operands))


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("form", FORMS)
def test_a_norm_without_gradients_is_joined(strategy, form):
    operands = operands_of(3, 7, 17)
    function = traced(strategy, FORMS[form], operands)
    assert "IpuLayerNorm" in live_types(function)
    np.testing.assert_allclose(function(*operands), FORMS[form](*operands), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_the_vectors_may_be_no_variables(strategy):
    """Only x has a gradient."""

    def fn(x, gamma, beta):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.sin(of_keras(x, gamma, beta)))
        return tape.gradient(loss, [x])

    operands = operands_of(3, 7, 17)
    function = traced(strategy, fn, operands)
    assert "IpuLayerNormGrad" in live_types(function)
    assert_as_exact(fn, operands, function(*operands))


@pytest.mark.slow
def test_two_norms_of_one_tensor(strategy):
    """The gradient of the tensor adds up what both of them cause."""

    def fn(x, gamma, beta):
        with tf.GradientTape() as tape:
            tape.watch((x, gamma, beta))
            y = of_keras(x, gamma, beta) * tf.sin(of_keras(x, beta, gamma))
        return tape.gradient(y, (x, gamma, beta))

    operands = operands_of(3, 7, 17)
    assert_as_exact(fn, operands, traced(strategy, fn, operands)(*operands))


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_gradients_by_a_tape_outside(strategy, form):
    operands = operands_of(2, 4, 6)
    step = tf.function(functools.partial(with_gradients, norm=FORMS[form], residual=True))
    strategy.run(step, args=operands)  # Traced, and joined, while nothing is recorded.

    ours = gradients_of_squares(lambda *a: strategy.run(step, args=a), operands)
    plain = gradients_of_squares(step.python_function, operands)
    for mine, stock in zip(ours, plain, strict=True):
        np.testing.assert_allclose(mine, stock, rtol=1e-3, atol=1e-4 * np.abs(stock).max())


READ = {
    "the slope": ("Mul", (2, 4, 6)),
    "the mean": ("Mean", (2, 4, 1)),
    "the inverse deviation": ("Rsqrt", (2, 4, 1)),
}


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("name", READ)
def test_what_is_read_elsewhere_stays(strategy, name):
    def fn(x, gamma, beta):
        results = with_gradients(x, gamma, beta)
        graph = tf.compat.v1.get_default_graph()
        pieces = (op.outputs[0] for op in graph.get_operations() if op.type == READ[name][0])
        return *results, next(piece for piece in pieces if piece.shape == READ[name][1])

    function = traced(strategy, fn, operands_of(2, 4, 6))
    assert not JOINED & set(live_types(function))


def float16(x, gamma, beta):
    return of_keras(x, gamma, beta)


def along_rows(x, gamma, beta):
    return of_tf_nn(x, gamma[0], beta[0], axes=(0,))


def without_dimensions(x, gamma, beta):
    mean, variance = tf.nn.moments(x, (-1,))
    inverse = tf.math.rsqrt(variance + 1e-3)[:, None] * gamma
    return x * inverse + (beta - mean[:, None] * inverse)


def of_other_axes(x, gamma, beta):
    mean = tf.reduce_mean(x, 0, keepdims=True)
    squares = tf.math.squared_difference(x, tf.stop_gradient(mean))
    variance = tf.reduce_mean(squares, 1, keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3)


def epsilon_of_each_row(x, gamma, beta):
    return of_tf_nn(x, gamma, beta, epsilon=tf.abs(x[:, :1]))


UNJOINED = [float16, along_rows, without_dimensions, of_other_axes, epsilon_of_each_row]


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("fn", UNJOINED)
def test_what_is_not_the_same_stays(strategy, fn):
    operands = operands_of(6, 6, dtype="float16" if fn is float16 else "float32")
    assert not JOINED & set(live_types(traced(strategy, fn, operands)))


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_the_program_costs_what_it_costs_in_pieces(monkeypatch, strategy, form):
    operands = operands_of(2, 4, 6)
    fn = functools.partial(with_gradients, norm=FORMS[form], residual=True)

    def steps(own):
        own.run(tf.function(fn), args=operands)
        return [(s.name, s.layer, s.cycles) for s in own.report().programs[0].device.steps]

    joined = steps(strategy)
    monkeypatch.setattr(fusion, "fuse", lambda graph, outputs, **_: outputs)
    assert joined == steps(IPUStrategy(enable_keras_extensions=False))


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_layers_of_keras_are_joined(policy):
    """In mixed precision, too: the layer computes in float32."""
    own = IPUStrategy()
    with own.scope():
        inputs = x = keras.Input((5, 8))
        for _ in range(2):
            x = x + keras.layers.Dense(8, dtype=policy)(
                keras.layers.LayerNormalization(dtype=policy)(x)
            )
        model = keras.Model(inputs, keras.layers.GlobalAveragePooling1D()(x))
        model.compile("sgd", "mse")
    data = tf.constant(normals(0, (4, 5, 8))), tf.constant(normals(1, (4, 8)))
    step = tf.function(lambda data: own.run(model.train_step, args=(data,)))
    function = step.get_concrete_function(data)
    read = [tensor.op for op in function.graph.get_operations() for tensor in op.inputs]
    assert len({op.name for op in read if op.type == "IpuLayerNormGrad"}) == 1
    assert len({op.name for op in read if op.type == "IpuLayerNorm"}) == 1


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("epsilon", [1e-3, 1e-12])
def test_layers_of_tf_keras_are_joined(strategy, epsilon):
    layer = pytest.importorskip("tf_keras").layers.LayerNormalization(epsilon=epsilon)
    layer.build((3, 7, 17))

    def fn(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.sin(layer(x))
        return tape.gradient(y, [x, *layer.trainable_variables])

    types = set(live_types(traced(strategy, fn, [tf.constant(normals(0, (3, 7, 17)))])))
    assert types >= JOINED
    assert not types & PIECES


WRONG = {
    "no elements": ([(0, 5), (5,), (5,), ()], "x must have elements and at least 1 dimensions"),
    "another vector": (
        [(4, 5), (4,), (5,), ()],
        r"input 1 must have one value for each of 5 columns. Received the shape \[4\]",
    ),
    "a vector of epsilons": (
        [(4, 5), (5,), (5,), (4,)],
        r"epsilon is a scalar. Received the shape \[4\]",
    ),
    "other means": (
        [(4, 5), (4, 5), (5,), (5, 1), (4, 1)],
        r"input 3 must have one value for each of 4 rows. Received the shape \[5,1\]",
    ),
    "another gradient": (
        [(4, 5), (4, 6), (5,), (4, 1), (4, 1)],
        r"input 1 must have one value for each of 20 elements of x. Received the shape \[4,6\]",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_shapes_are_checked(name):
    shapes, message = WRONG[name]
    operands = [tf.constant(normals(0, shape)) for shape in shapes]
    ops = library.load()
    gradient = functools.partial(ops.ipu_layer_norm_grad, added=[], rank=2)
    op = ops.ipu_layer_norm if len(operands) == 4 else gradient
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        op(*operands, axes=1)
