"""Group, layer and instance norm as functions: values, gradients, variables, errors."""

import logging

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.ops import normalization_ops

RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(2, 3, 3, 4)).astype("float32")
EPSILON = 1.53e-5


def normalized(x, groups, strided, axis=-1, epsilon=EPSILON):
    """The definition: each group of each sample by itself, in float64."""
    x = np.moveaxis(np.float64(x), axis, -1)
    channels = x.shape[-1]
    out = np.empty_like(x)
    for sample in range(len(x)):
        for group in range(groups):
            size = channels // groups
            own = slice(group, None, groups) if strided else slice(group * size, (group + 1) * size)
            values = x[sample, ..., own]
            out[sample, ..., own] = (values - values.mean()) / np.sqrt(values.var() + epsilon)
    return np.moveaxis(out, -1, axis)


@pytest.mark.fast_cells(2)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("op", "groups", "strided"),
    [
        (normalization_ops.group_norm, 2, True),
        (lambda x: normalization_ops.group_norm(x, strided_channel_grouping=False), 2, False),
        (normalization_ops.layer_norm, 1, True),
        (normalization_ops.instance_norm, 4, True),
    ],
    ids=["strided", "blocked", "layer", "instance"],
)
def test_values_are_those_of_the_definition(strategy, op, groups, strided, dtype):
    x = X.astype(dtype)
    on_device = strategy.run(tf.function(op), args=(tf.constant(x),))
    assert on_device.dtype == dtype
    tolerance = 1e-5 if dtype == "float32" else 2e-3
    np.testing.assert_allclose(on_device, normalized(x, groups, strided), atol=tolerance)
    np.testing.assert_allclose(op(tf.constant(x)), on_device, atol=tolerance)


def test_gradients_are_those_of_the_definition(strategy):
    def loss(x, gamma, beta):
        x = tf.reshape(x, (2, 9, 2, 2))  # Channel c is in group c % 2.
        mean, variance = tf.nn.moments(x, (1, 2), keepdims=True)
        values = tf.reshape((x - mean) / tf.sqrt(variance + EPSILON), (2, 3, 3, 4))
        return tf.reduce_sum(tf.square(values * gamma + beta) * tf.range(4.0))

    initial = {"gamma": tf.constant_initializer(0.5), "beta": lambda s, dtype: tf.fill(s, 2.0)}

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = normalization_ops.group_norm(x, param_initializers=initial)
            value = tf.reduce_sum(tf.square(y) * tf.range(4.0))
        gamma, beta = tape.watched_variables()
        return tape.gradient(value, [x, gamma, beta])

    sources = [tf.constant(X), tf.fill((4,), 0.5), tf.fill((4,), 2.0)]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        value = loss(*sources)
    expected = tape.gradient(value, sources)
    for found, wanted in zip(strategy.run(step, args=(sources[0],)), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-3)


def test_a_function_keeps_its_variables_and_trains_them(strategy):
    trained = []

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            y = normalization_ops.layer_norm(normalization_ops.layer_norm(x))
            loss = tf.reduce_sum(y)
        variables = tape.watched_variables()
        trained[:] = variables
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(0.1 * gradient)
        return loss

    x = tf.constant(X)
    losses = [float(strategy.run(step, args=(x,))) for _ in range(2)]
    assert losses[1] < losses[0] - 1
    first = {id(variable) for variable in trained}
    assert len(first) == 4
    strategy.run(step, args=(x[:1],))  # Another trace.
    assert {id(variable) for variable in trained} == first


@pytest.mark.slow
def test_calls_with_one_scope_share_variables(strategy):
    seen = {}

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            for _ in range(2):
                x = normalization_ops.group_norm(x, scope="shared", center=False)
            with tf.compat.v1.variable_scope("outer"):
                x = normalization_ops.group_norm(x, scope="shared", center=False)
        seen["variables"] = len(tape.watched_variables())
        return x

    strategy.run(step, args=(tf.constant(X),))
    assert seen["variables"] == 2

    @tf.function
    def clash(x):
        normalization_ops.layer_norm(x[..., :2], scope="one")
        return normalization_ops.layer_norm(x, scope="one")

    with pytest.raises(ValueError, match="'one/gamma' has float32.*Give each call a `scope` of i"):
        strategy.run(clash, args=(tf.constant(X),))


def test_a_graph_of_tensorflow_1_has_their_variables():
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, X.shape)
        first = normalization_ops.group_norm(x, trainable=False)
        with tf.compat.v1.variable_scope("again"):
            normalization_ops.group_norm(x)
            again = normalization_ops.group_norm(x, scope="GroupNorm", reuse=True)
        names = [variable.name for variable in graph.get_collection("variables")]
        session.run(tf.compat.v1.global_variables_initializer())
        value, other = session.run([first, again], {x: X})
    assert names == [
        "GroupNorm/gamma:0",
        "GroupNorm/beta:0",
        "again/GroupNorm/gamma:0",
        "again/GroupNorm/beta:0",
    ]
    np.testing.assert_allclose(value, normalized(X, 2, strided=True), atol=1e-5)
    np.testing.assert_array_equal(value, other)


def test_channels_may_be_the_first_axis_of_a_sample():
    found = normalization_ops.instance_norm(X, channels_axis=1)
    np.testing.assert_allclose(found, normalized(X, 3, strided=True, axis=1), atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"groups": 3}, "number of groups must divide .* groups=3, 4 channels"),
        ({"groups": 0}, "number of groups must divide"),
        ({"channels_axis": 2}, r"axis 1 or the last axis .* channels_axis=2.*\(2, 3, 3, 4\)"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        normalization_ops.group_norm(X, **arguments)


def test_other_inputs_are_refused():
    with pytest.raises(ValueError, match="must be float16 or float32; tf.cast them.*int32"):
        normalization_ops.layer_norm(tf.range(4)[None])
    with pytest.raises(ValueError, match="the number of channels must be static"):
        tf.function(normalization_ops.layer_norm).get_concrete_function(
            tf.TensorSpec((2, None), tf.float32)
        )


@pytest.mark.parametrize("op", [normalization_ops.layer_norm, normalization_ops.instance_norm])
def test_an_epsilon_below_float16_warns(op, caplog):
    with caplog.at_level(logging.WARNING):
        op(X, epsilon=1e-6)
    assert "epsilon=1e-06 is below 1.53e-05, which float16 does not resolve" in caplog.text
