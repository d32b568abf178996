"""Ops that are joined, products with bias and ReLU for one: the same values."""

import collections
import functools

import keras
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
    return sorted(types_behind(tensor.op for tensor in function.graph.outputs))


def types_behind(ops):
    """Returns how many ops of each type some ops read from, themselves included."""
    waiting = list(ops)
    seen = {}
    while waiting:
        op = waiting.pop()
        if op.name not in seen:
            seen[op.name] = op.type
            waiting += [tensor.op for tensor in op.inputs]
    return collections.Counter(seen.values())


FUSED = {"conv": "IpuConv2DBias", "grouped": "IpuConv2DBias", "dense": "IpuMatMulBias"}


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("kind", FUSED)
def test_bias_and_relu(strategy, kind, relu):
    fn, operands = layer(kind, relu)
    function = traced(strategy, fn, operands)
    types = live_types(function)
    assert FUSED[kind] in types
    assert not {"BiasAdd", "Relu"} & set(types)
    np.testing.assert_allclose(function(*operands), fn(*operands), rtol=1e-5, atol=1e-5)


@pytest.mark.fast_cells(1)
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


@pytest.mark.fast_cells(1)
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


RESIDUAL_OPERANDS = (
    random(2, 6, 4, 5, seed=1),
    random(3, 3, 5, 5, seed=2),
    random(1, 1, 5, 5, seed=3),
)


def residual(x, w, v, *, projects=False, relu=True):
    """A block whose input two branches read."""
    x = tf.nn.relu(x) if relu else tf.sin(x)
    by_branch = tf.nn.conv2d(x, w, 1, "SAME")
    return by_branch + (tf.nn.conv2d(x, v, 1, "SAME") if projects else v[0, 0, 0] * x)


@pytest.mark.fast_cells(2)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("projects", [False, True])
def test_gradients_that_meet_where_a_residual_block_begins(strategy, projects, relu):
    block = functools.partial(residual, projects=projects, relu=relu)

    def gradients(*operands):
        return gradients_of(block, operands)

    function = traced(strategy, gradients, RESIDUAL_OPERANDS)
    types = types_behind(tensor.op for tensor in function.graph.outputs)
    assert types["IpuConv2DBackpropInputFused"] == 1
    assert types["IpuConv2DBackpropInput"] == projects
    assert not {"AddN", "ReluGrad"} & types.keys()
    for ours, stock in zip(
        function(*RESIDUAL_OPERANDS), gradients(*RESIDUAL_OPERANDS), strict=True
    ):
        np.testing.assert_allclose(ours, stock, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("relu", [False, True])
def test_second_order_gradients_through_a_joined_sum_of_gradients(strategy, relu):
    block = functools.partial(residual, relu=relu)
    step = tf.function(lambda *operands: gradients_of(block, operands))
    strategy.run(step, args=RESIDUAL_OPERANDS)  # Traced, and joined, while nothing is recorded.

    ours = gradients_of_squares(lambda *a: strategy.run(step, args=a), RESIDUAL_OPERANDS)
    plain = gradients_of_squares(step.python_function, RESIDUAL_OPERANDS)
    for mine, stock in zip(ours, plain, strict=True):
        np.testing.assert_allclose(mine, stock, rtol=1e-4, atol=1e-4 * float(tf.norm(stock)))


def test_sums_of_gradients_that_are_read_elsewhere_or_of_float16_stay(strategy):
    def first(x, w, v):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = residual(x, w, v, relu=False)
        tape.gradient(y, x)
        graph = tf.compat.v1.get_default_graph()
        return [op.outputs[0] for op in graph.get_operations() if "Backprop" in op.type]

    function = traced(strategy, first, RESIDUAL_OPERANDS)
    assert "IpuConv2DBackpropInput" in live_types(function)
    halves = [tf.cast(value, tf.float16) for value in RESIDUAL_OPERANDS]
    function = traced(strategy, lambda *operands: gradients_of(residual, operands), halves)
    assert {"AddN", "ReluGrad"} <= set(live_types(function))


def test_the_report_lists_the_product(strategy):
    fn, operands = layer("conv", relu=True)
    traced(strategy, fn, operands)
    assert [op.op_type for op in strategy.report().tile_ops] == ["Conv2D"]


SEED = tf.constant([3, 5])


def dropout(x, rate=0.3, noise_shape=None):
    return tf.nn.experimental.stateless_dropout(
        x, rate, seed=SEED, rng_alg="philox", noise_shape=noise_shape
    )


def network(x, w):
    """Dropout, a convolution, ReLU, pooling: every gradient has one to join with."""
    hidden = tf.nn.relu(tf.nn.conv2d(dropout(x), w, 1, "SAME"))
    return dropout(tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(hidden, w, 1, "SAME")), 2, 2, "SAME"))


NETWORK_OPERANDS = (random(2, 6, 5, 4, seed=1), random(3, 3, 4, 4, seed=2))
ELEMENT_WISE = {"ReluGrad", "MaxPoolGrad", "SelectV2", "GreaterEqual", "StatelessRandomUniformV2"}


def gradients_of(fn, operands, weights=1.0):
    with tf.GradientTape() as tape:
        tape.watch(operands)
        y = fn(*operands)
    return tape.gradient(y, operands, output_gradients=weights * tf.ones_like(y))


def gradients_of_squares(run, operands):
    """Returns the gradients of the sum of the squares of all results."""
    with tf.GradientTape() as tape:
        tape.watch(operands)
        total = sum(tf.reduce_sum(value**2) for value in run(*operands))
    return tape.gradient(total, operands)


def test_dropout_has_the_bits_of_stock(strategy):
    x = random(40, 33)
    function = traced(strategy, dropout, [x])
    types = set(live_types(function))
    assert {"IpuDropoutMask", "IpuMaskedScale"} <= types
    assert not ELEMENT_WISE & types
    np.testing.assert_array_equal(function(x), dropout(x))


def test_stateful_dropout_has_the_bits_of_stock(strategy):
    def fn(x):
        return tf.nn.dropout(x, 0.3, seed=7)

    x = random(40, 33)
    tf.random.set_seed(3)
    function = traced(strategy, fn, [x])
    types = set(live_types(function))
    assert {"IpuStatefulDropoutMask", "IpuMaskedScale"} <= types
    assert not {*ELEMENT_WISE, "RandomUniform"} & types
    tf.random.set_seed(3)
    stock = tf.function(fn).get_concrete_function(x)
    for _ in range(3):
        np.testing.assert_array_equal(function(x), stock(x))


def test_dropout_whose_mask_is_broadcast(strategy):
    def fn(x):
        return dropout(x, noise_shape=(40, 1))

    x = random(40, 33)
    function = traced(strategy, fn, [x])
    assert "IpuDropoutMask" in live_types(function)
    assert "IpuMaskedScale" not in live_types(function)
    np.testing.assert_array_equal(function(x), fn(x))


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(
    "numbers",
    [
        lambda: tf.random.stateless_uniform([9], SEED, minval=-1.0, maxval=1.0, alg="philox"),
        lambda: tf.random.stateless_uniform([9], SEED, maxval=2.0, alg="philox"),
        lambda: tf.random.stateless_uniform([9], SEED, alg="threefry"),
        lambda: tf.random.stateless_normal([9], SEED, alg="philox"),
    ],
)
def test_other_random_numbers_are_not_joined(strategy, numbers):
    function = traced(strategy, lambda: numbers() >= 0.3, [])
    assert "IpuDropoutMask" not in live_types(function)


def test_random_numbers_that_are_read_elsewhere_are_not_joined(strategy):
    def fn():
        numbers = tf.random.stateless_uniform([9], SEED, alg="philox")
        return numbers, numbers >= 0.3

    assert "IpuDropoutMask" not in live_types(traced(strategy, fn, []))


@pytest.mark.parametrize("factor", [-1.0, 0.0, np.inf])
def test_a_factor_that_does_not_keep_zeros_is_not_joined(strategy, factor):
    def fn(x):
        return tf.where(x > 0, x, 0.0) * factor

    assert "IpuMaskedScale" not in live_types(traced(strategy, fn, [random(9)]))


def test_gradients_of_dropout_relu_and_pooling(strategy):
    function = traced(strategy, lambda *operands: gradients_of(network, operands), NETWORK_OPERANDS)
    types = set(live_types(function))
    assert {"IpuMaxPoolGrad", "IpuConv2DBackpropInputFused", "IpuMaskedScale"} <= types
    assert not ELEMENT_WISE & types
    stock = gradients_of(network, NETWORK_OPERANDS)
    for mine, theirs in zip(function(*NETWORK_OPERANDS), stock, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)


def test_the_gradient_of_a_relu_that_ends_at_six_has_the_bits_of_stock(strategy):
    def fn(x, dy):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.nn.relu6(x)
        return tape.gradient(y, x, output_gradients=dy)

    edges = [0.0, -0.0, 6.0, np.nan, np.inf, -np.inf, 5.9999995, 1e-45]
    x = tf.concat([edges, 9 * random(1000, seed=1)], 0)
    dy = tf.concat([random(6, seed=2), [np.inf, np.nan], random(1000, seed=3)], 0)
    function = traced(strategy, fn, [x, dy])
    types = set(live_types(function))
    assert "IpuRelu6Grad" in types
    assert "Relu6Grad" not in types
    np.testing.assert_array_equal(function(x, dy), fn(x, dy))


@pytest.mark.parametrize("fn", [dropout, lambda x: tf.nn.dropout(x, 0.3, seed=7)])
def test_dropout_of_float16_has_the_bits_of_stock(strategy, fn):
    x = tf.cast(random(40, 33), tf.float16)
    tf.random.set_seed(3)
    function = traced(strategy, fn, [x])
    assert not {*ELEMENT_WISE, "RandomUniform"} & set(live_types(function))
    tf.random.set_seed(3)
    stock = tf.function(fn).get_concrete_function(x)
    np.testing.assert_array_equal(function(x), stock(x))


@pytest.mark.parametrize("size", [2, 3])
def test_pooling_of_float16_is_joined_where_windows_are_apart(strategy, size):
    def fn(x):
        return gradients_of(lambda x: tf.nn.max_pool2d(tf.nn.relu(x), size, 2, "SAME"), (x,))

    x = tf.cast(random(2, 6, 5, 4), tf.float16)
    function = traced(strategy, fn, [x])
    assert ("IpuMaxPoolGrad" in live_types(function)) == (size == 2)
    np.testing.assert_array_equal(function(x)[0], fn(x)[0])


@pytest.mark.parametrize("dtype", [tf.float32, tf.float16])
def test_the_gradient_of_the_bias_of_many_rows(strategy, dtype):
    def fn(x, b):
        return gradients_of(lambda x, b: tf.sin(tf.nn.bias_add(x, b)), (x, b))

    x, b = tf.cast(random(40, 50, 64), dtype), tf.cast(random(64, seed=1), dtype)
    function = traced(strategy, fn, [x, b])
    assert "IpuBiasAddGrad" in live_types(function)
    assert "BiasAddGrad" not in live_types(function)
    np.testing.assert_allclose(function(x, b)[1], fn(x, b)[1], rtol=2e-3, atol=2e-3)


def test_other_gradients_of_biases_stay(strategy):
    def few(x, b):
        return gradients_of(tf.nn.bias_add, (x, b))

    def first(x, b):
        return gradients_of(lambda x, b: tf.nn.bias_add(x, b, data_format="NCHW"), (x, b))

    for fn, shape in ((few, (40, 64)), (first, (40, 64, 50))):
        function = traced(strategy, fn, [random(*shape), random(64)])
        assert "IpuBiasAddGrad" not in live_types(function)


def test_choices_among_few_scores_of_many_rows(strategy):
    def fn(x):
        probabilities = tf.nn.softmax(x)
        largest = tf.cast(tf.argmax(x, 2), tf.int32)
        return tf.argmax(probabilities, -1, tf.int32), largest, probabilities

    x = random(60, 70, 20)
    function = traced(strategy, fn, [x])
    assert not {"Softmax", "ArgMax"} & set(live_types(function))
    for ours, stock in zip(function(x), fn(x), strict=True):
        assert ours.dtype == stock.dtype
        np.testing.assert_allclose(ours, stock, rtol=1e-5)


def test_the_choice_of_keras_with_its_order_of_zeros(strategy):
    x = np.random.default_rng(2).choice(np.float32([-1.0, -0.0, 0.0]), (60, 70, 20))
    function = traced(strategy, lambda x: keras.ops.argmax(x, -1), [tf.constant(x)])
    assert set(live_types(function)) == {"Identity", "IpuArgMax", "Placeholder"}
    np.testing.assert_array_equal(function(tf.constant(x)), keras.ops.argmax(x, -1))


@pytest.mark.parametrize("shape", [(60, 7, 20), (60, 70, 40)], ids=["few rows", "many scores"])
def test_other_choices_stay(strategy, shape):
    def fn(x):
        return tf.argmax(tf.nn.softmax(x), -1, tf.int32)

    function = traced(strategy, fn, [random(*shape)])
    assert {"Softmax", "ArgMax"} <= set(live_types(function))


def test_choices_along_another_axis_stay(strategy):
    function = traced(strategy, lambda x: tf.argmax(x, 1, tf.int32), [random(60, 70, 20)])
    assert "ArgMax" in live_types(function)


def test_a_softmax_before_dropout_is_joined_with_it(strategy):
    function = traced(strategy, lambda x: dropout(tf.nn.softmax(x)), [random(60, 70, 20)])
    assert "IpuSoftmaxDropout" in live_types(function)


def test_gradients_by_a_tape_outside_of_dropout_and_pooling(strategy):
    step = tf.function(network)
    strategy.run(step, args=NETWORK_OPERANDS)
    ours = gradients_of(lambda *a: strategy.run(step, args=a), NETWORK_OPERANDS)
    for mine, stock in zip(ours, gradients_of(network, NETWORK_OPERANDS), strict=True):
        np.testing.assert_allclose(mine, stock, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_second_order_gradients_through_joined_gradients(strategy):
    x, w = NETWORK_OPERANDS
    weights = random(2, 3, 3, 4, seed=4)

    def first(x, w, weights):
        return gradients_of(network, (x, w), weights)

    def second(run):
        with tf.GradientTape() as tape:
            tape.watch((w, weights))
            dx, dw = run(x, w, weights)
            total = tf.reduce_sum(dx**2) + tf.reduce_sum(dw)
        return tape.gradient(total, (w, weights))

    step = tf.function(first)
    strategy.run(step, args=(x, w, weights))
    ours = second(lambda *a: strategy.run(step, args=a))
    for mine, stock in zip(ours, second(first), strict=True):
        np.testing.assert_allclose(mine, stock, rtol=1e-4, atol=1e-4 * float(tf.norm(stock)))


def test_a_pooling_that_is_not_over_images_stays(strategy):
    def fn(x):
        pool = tf.raw_ops.MaxPool
        return gradients_of(
            lambda x: pool(input=x, ksize=[1, 1, 1, 2], strides=[1, 1, 1, 2], padding="VALID"), (x,)
        )

    assert "MaxPoolGrad" in live_types(traced(strategy, fn, [random(2, 3, 3, 4)]))


def test_chains_that_end_in_an_output_are_joined(strategy):
    def fn(x, w):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.nn.max_pool2d(x, 2, 2, "VALID")
        return tape.gradient(y, x), dropout(x)

    x, w = NETWORK_OPERANDS
    function = traced(strategy, fn, [x, w])
    assert not ELEMENT_WISE & set(live_types(function))
    for mine, stock in zip(function(x, w), fn(x, w), strict=True):
        np.testing.assert_array_equal(mine, stock)
