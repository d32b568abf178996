"""Gradients of layers' inputs that are joined with what follows: the same values, fewer passes."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from tests.runtime.execution.test_fusion import (
    gradients_of,
    gradients_of_squares,
    random,
    traced,
    types_behind,
)


@pytest.fixture
def strategy():
    return IPUStrategy(enable_keras_extensions=False)


def convolution(x, w):
    return tf.nn.conv2d(x, w, 1, "SAME")


def links(layer):
    """Returns a function of two operands that a layer reads side by side, and others read, too."""

    def fn(a, b, w, v):
        left, right = tf.nn.relu(tf.sin(a)), tf.cos(b)
        joined = layer(tf.concat([left, right], -1), w)
        return tf.nn.relu(joined) + layer(left, v)

    return fn


# The layer, its operands: what is concatenated, and weights.
LAYERS = {
    "convolution": (
        links(convolution),
        (random(2, 6, 5, 16), random(2, 6, 5, 5), random(3, 3, 21, 4), random(1, 1, 16, 4)),
        "IpuConv2DBackpropInputFused",
    ),
    "dense": (
        links(tf.matmul),
        (random(9, 32), random(9, 7), random(39, 5), random(32, 5)),
        "IpuMatMulFused",
    ),
}


def types_of(function):
    return types_behind(tensor.op for tensor in function.graph.outputs)


def assert_close(ours, stock):
    for mine, theirs in zip(ours, stock, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4 * float(tf.norm(theirs)))


@pytest.mark.parametrize("layer", LAYERS)
def test_gradients_of_what_was_concatenated(strategy, layer):
    fn, operands, joined = LAYERS[layer]

    def gradients(*operands):
        return gradients_of(fn, operands)

    function = traced(strategy, gradients, operands)
    types = types_of(function)
    assert types[joined] >= 2
    assert not {"Slice", "AddN"} & types.keys()
    # That of `left`, which two layers read; that of their sum is of no product.
    assert types["ReluGrad"] == 1
    assert_close(function(*operands), gradients(*operands))


@pytest.fixture
def sizes_as_objects():
    """Shapes as scripts of TensorFlow 1 have them."""
    tf.compat.v1.disable_v2_tensorshape()
    yield
    tf.compat.v1.enable_v2_tensorshape()


@pytest.mark.usefixtures("sizes_as_objects")
@pytest.mark.parametrize("layer", LAYERS)
def test_gradients_where_sizes_are_objects(strategy, layer):
    fn, operands, joined = LAYERS[layer]
    function = traced(strategy, lambda *operands: gradients_of(fn, operands), operands)
    types = types_of(function)
    assert types[joined] >= 2
    assert "Slice" not in types


@pytest.mark.parametrize("layer", LAYERS)
def test_parts_have_the_bits_of_the_whole(strategy, layer):
    fn, operands, _ = LAYERS[layer]

    def gradients(*operands, reads):
        with tf.GradientTape() as tape:
            tape.watch(operands)
            y = fn(*operands)
        grads = tape.gradient(y, operands)
        graph = tf.compat.v1.get_default_graph()
        whole = [op.outputs[0] for op in graph.get_operations() if op.type in PRODUCTS]
        whole = [tensor for tensor in whole if tensor.shape[-1] == operands[2].shape[-2]]
        return grads, tf.add_n([tf.reduce_sum(tensor) for tensor in whole]) if reads else 0.0

    apart = traced(strategy, lambda *x: gradients(*x, reads=True), operands)
    function = traced(strategy, lambda *x: gradients(*x, reads=False), operands)
    assert "Slice" in types_of(apart)
    assert "Slice" not in types_of(function)
    for mine, whole in zip(function(*operands)[0], apart(*operands)[0], strict=True):
        np.testing.assert_array_equal(mine, whole)


PRODUCTS = {"IpuConv2DBackpropInput", "IpuMatMul"}


@pytest.mark.parametrize("layer", LAYERS)
def test_second_order_gradients(strategy, layer):
    fn, operands, _ = LAYERS[layer]
    step = tf.function(lambda *operands: gradients_of(fn, operands))
    strategy.run(step, args=operands)  # Traced, and joined, while nothing is recorded.
    ours = gradients_of_squares(lambda *a: strategy.run(step, args=a), operands)
    assert_close(ours, gradients_of_squares(step.python_function, operands))


@pytest.mark.parametrize("sizes", [(5, 7), (16, 9, 15)])
def test_parts_that_would_cost_more_than_the_whole_are_cut_from_it(strategy, sizes):
    operands = [random(9, size, seed=size) for size in sizes]
    w = random(sum(sizes), 5)

    def gradients(*operands):
        def fn(*parts):
            return tf.tanh(tf.matmul(tf.concat(parts, 1), w))

        return gradients_of(fn, operands)

    function = traced(strategy, gradients, operands)
    costs_more = sizes == (5, 7)
    assert ("Slice" in types_of(function)) == costs_more
    assert_close(function(*operands), gradients(*operands))


def test_only_the_parts_that_are_read_are_computed(strategy):
    a, b, w = random(9, 16), random(9, 16, seed=1), random(32, 5)

    def gradients(a, b, w):
        return gradients_of(lambda a: tf.tanh(tf.matmul(tf.concat([b, a], 1), w)), (a,))

    function = traced(strategy, gradients, (a, b, w))
    types = types_of(function)
    assert types["IpuMatMulFused"] == 1
    assert "Slice" not in types
    assert_close(function(a, b, w), gradients(a, b, w))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_rows_that_were_concatenated_are_cut(strategy, axis):
    a, b, w = random(2, 4, 4, 3), random(2, 4, 4, 3, seed=1), random(3, 3, 3, 5)

    def gradients(a, b, w):
        return gradients_of(lambda a, b: tf.tanh(convolution(tf.concat([a, b], axis), w)), (a, b))

    function = traced(strategy, gradients, (a, b, w))
    assert types_of(function)["Slice"] == 2
    assert_close(function(a, b, w), gradients(a, b, w))


def slices(x, w):
    """Some of the gradient, by numbers that are known."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.tanh(tf.matmul(x, w))
    dx = tape.gradient(y, x)
    return tf.slice(dx, [0, 3], [9, 16]), tf.slice(dx, [0, 20], [-1, 15])


def test_slices_of_a_gradient(strategy):
    operands = random(9, 40), random(40, 5)
    function = traced(strategy, slices, operands)
    assert "Slice" not in types_of(function)
    assert_close(function(*operands), slices(*operands))


def transposed(x, w, b, *, relu=True):
    """A transposed convolution of what left a ReLU."""
    y = tf.nn.conv2d_transpose(tf.nn.relu(x), w, (2, 8, 6, 4), 2, "SAME")
    y = tf.nn.bias_add(y, b)
    return tf.nn.relu(y) if relu else y


TRANSPOSED_OPERANDS = (random(2, 4, 3, 5), random(2, 2, 4, 5), random(4))


@pytest.mark.parametrize("relu", [False, True])
def test_a_transposed_convolution(strategy, relu):
    def fn(*operands):
        return transposed(*operands, relu=relu)

    function = traced(strategy, fn, TRANSPOSED_OPERANDS)
    types = types_of(function)
    assert types["IpuConv2DBackpropInputFused"] == 1
    assert not {"BiasAdd", "IpuConv2DBackpropInput"} & types.keys()
    assert types["Relu"] == 1
    np.testing.assert_allclose(
        function(*TRANSPOSED_OPERANDS), fn(*TRANSPOSED_OPERANDS), rtol=1e-5, atol=1e-5
    )


def test_the_gradient_of_a_transposed_convolution(strategy):
    def gradients(*operands):
        return gradients_of(transposed, operands)

    function = traced(strategy, gradients, TRANSPOSED_OPERANDS)
    types = types_of(function)
    assert types["IpuConv2DReluGrad"] == 1
    assert "IpuConv2D" not in types
    assert_close(function(*TRANSPOSED_OPERANDS), gradients(*TRANSPOSED_OPERANDS))


def test_second_order_gradients_of_a_transposed_convolution(strategy):
    step = tf.function(lambda *operands: gradients_of(transposed, operands))
    strategy.run(step, args=TRANSPOSED_OPERANDS)
    ours = gradients_of_squares(lambda *a: strategy.run(step, args=a), TRANSPOSED_OPERANDS)
    assert_close(ours, gradients_of_squares(step.python_function, TRANSPOSED_OPERANDS))


@pytest.mark.parametrize("layer", LAYERS)
def test_float16_is_not_joined(strategy, layer):
    fn, operands, _ = LAYERS[layer]
    halves = [tf.cast(value, tf.float16) for value in operands]
    function = traced(strategy, lambda *operands: gradients_of(fn, operands), halves)
    assert {"Slice", "AddN"} <= types_of(function).keys()


def test_a_loop_of_dense_layers_by_xla_has_the_bits_of_the_graph():
    """Weights change in place, after the gradient that is joined with a ReLU's has read them."""
    x, w, v = random(8, 12), random(12, 16, seed=1), random(16, 3, seed=2)

    def trained(engine):
        strategy = IPUStrategy(enable_keras_extensions=False)
        with strategy.scope():
            variables = [tf.Variable(w), tf.Variable(v)]

        def step():
            with tf.GradientTape() as tape:
                y = tf.matmul(tf.nn.relu(tf.matmul(x, variables[0])), variables[1])
                loss = tf.reduce_sum(y**2)
            for variable, grad in zip(variables, tape.gradient(loss, variables), strict=True):
                variable.assign_sub(1e-3 * grad)

        def steps():
            for _ in tf.range(5):
                step()

        strategy.run(tf.function(steps, jit_compile=engine == "xla"))
        return [variable.numpy() for variable in variables]

    for ours, graph in zip(trained("xla"), trained("graph"), strict=True):
        np.testing.assert_array_equal(ours, graph)
