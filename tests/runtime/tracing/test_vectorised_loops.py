"""`tf.vectorized_map` and jacobians of tile ops: batched tile ops, no loops."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config, ops
from tests.grids import mostly_slow


def random(*shape, seed=0):
    return tf.random.stateless_normal(shape, seed=[seed, 7])


def mapped(fn):
    return lambda *args: tf.vectorized_map(lambda parts: fn(*parts), args)


def over_first(fn):
    """Maps over the first argument; the iterations share the second."""
    return lambda x, w: tf.vectorized_map(lambda part: fn(part, w), x)


def over_second(fn):
    return lambda x, w: tf.vectorized_map(lambda part: fn(x, part), w)


def convolution(x, w, **options):
    return tf.nn.conv2d(x, w, **{"strides": 2, "padding": "SAME"} | options)


def dilated(x, w):
    return convolution(x, w, strides=1, padding="VALID", dilations=2)


def depthwise(x, w):
    return tf.nn.depthwise_conv2d(x, w, [1, 2, 2, 1], "SAME")


def batch_jacobian(x, w):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.tanh(tf.matmul(x, w))
    return tape.batch_jacobian(y, x)


def jacobian_of(fn):
    def jacobian(x, w):
        with tf.GradientTape() as tape:
            tape.watch(w)
            y = tf.tanh(fn(x, w))
        return tape.jacobian(y, w)

    return jacobian


def hessian_of(fn):
    def hessian(x, w):
        with tf.GradientTape() as outer:
            outer.watch(w)
            with tf.GradientTape() as tape:
                tape.watch(w)
                y = tf.reduce_sum(tf.tanh(fn(x, w)))
            gradient = tape.gradient(y, w)
        return outer.jacobian(gradient, w)

    return hessian


def gradients_of(fn):
    """Returns gradients for each part of the first argument, as for each sample of a batch."""

    def gradients(x, w):
        with tf.GradientTape() as tape:
            tape.watch((x, w))
            y = tf.tanh(fn(x, w))
        return tape.gradient(y, (x, w))

    return gradients


X, W = random(3, 2, 4, seed=1), random(4, 5, seed=2)
XS, WS = random(3, 2, 4, seed=3), random(3, 4, 5, seed=4)
BATCHES = random(3, 6, 2, 4, seed=5)
IMAGES, FILTER = random(3, 2, 6, 5, 2, seed=6), random(3, 3, 2, 4, seed=7)
FILTERS = random(3, 3, 3, 2, 4, seed=8)
GROUPED = random(3, 2, 6, 5, 4, seed=9)

CASES = {
    "rows": (over_first(tf.matmul), X, W),
    "rows_transposed": (over_first(lambda x, w: tf.matmul(x, w, True, True)), X, random(6, 2)),
    "columns": (over_second(tf.matmul), X[0], WS),
    "columns_transposed": (
        over_second(lambda x, w: tf.matmul(x, w, True, True)),
        random(4, 2),
        random(3, 5, 4),
    ),
    "both": (mapped(tf.matmul), XS, WS),
    "both_transposed": (
        mapped(lambda x, w: tf.matmul(x, w, True, True)),
        random(3, 4, 2),
        random(3, 5, 4),
    ),
    "vectors": (over_first(lambda x, w: tf.linalg.matvec(w, x, transpose_a=True)), X[:, 0], W),
    "keras": (
        lambda x, w: keras.ops.vectorized_map(lambda part: keras.ops.matmul(part, w), x),
        X,
        W,
    ),
    "batches": (over_first(tf.matmul), BATCHES, random(6, 4, 5)),
    "batches_of_other_rank": (over_second(tf.matmul), BATCHES[0], random(3, 4, 5)),
    "batches_version_3": (
        mapped(lambda x, w: tf.raw_ops.BatchMatMulV3(x=x, y=w, Tout=tf.float32)),
        BATCHES,
        random(3, 6, 4, 5),
    ),
    "einsum": (over_first(lambda x, w: tf.einsum("ij,jk->ki", x, w)), X, W),
    "einsum_of_both": (mapped(lambda x, w: tf.einsum("ij,jk->ki", x, w)), XS, WS),
    "images": (over_first(convolution), IMAGES, FILTER),
    "filters": (over_second(convolution), IMAGES[0], FILTERS),
    "images_and_filters": (mapped(convolution), IMAGES, FILTERS),
    "dilated": (mapped(dilated), IMAGES, FILTERS),
    "depthwise_images": (over_first(depthwise), IMAGES, FILTER),
    "depthwise_filters": (over_second(depthwise), IMAGES[0], FILTERS),
    "depthwise_both": (mapped(depthwise), IMAGES, FILTERS),
    "gradients_of_product": (over_first(gradients_of(tf.matmul)), X, W),
    "gradients_of_convolution": (over_first(gradients_of(convolution)), IMAGES, FILTER),
    "gradients_of_depthwise": (over_first(gradients_of(depthwise)), IMAGES, FILTER),
    "batch_jacobian": (batch_jacobian, X[0], W),
    "jacobian": (jacobian_of(tf.matmul), X[0], W),
    "jacobian_of_convolution": (jacobian_of(convolution), IMAGES[0], FILTER),
    "hessian": (hessian_of(tf.matmul), X[0], W),
    "hessian_of_convolution": (hessian_of(convolution), IMAGES[0], FILTER),
    "hessian_of_depthwise": (hessian_of(depthwise), IMAGES[0], FILTER),
}


def with_gradients(fn):
    def run(*args):
        with tf.GradientTape() as tape:
            tape.watch(args)
            results = tf.nest.flatten(fn(*args))
            loss = tf.add_n([tf.reduce_sum(result**2) for result in results])
        return results, tape.gradient(loss, args)

    return run


def loops_in(function):
    graph = function.graph.as_graph_def()
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    return [node.name for node in nodes if node.op in ("While", "StatelessWhile")]


SLOW = {
    *("rows_transposed", "columns_transposed", "einsum_of_both", "depthwise_filters"),
    *("gradients_of_depthwise", "jacobian_of_convolution"),
    *("hessian_of_convolution", "hessian_of_depthwise"),
}


@pytest.mark.parametrize("name", mostly_slow(list(CASES), fast=CASES.keys() - SLOW))
@pytest.mark.fast_cells(1)
def test_values_and_gradients_equal_stock_without_loops(name):
    fn, *args = CASES[name]
    strategy = IPUStrategy(enable_keras_extensions=False)
    step = with_gradients(fn)
    ours = tf.function(lambda *a: strategy.run(step, args=a)).get_concrete_function(*args)
    assert loops_in(ours) == []
    report = strategy.report()
    assert report.tile_ops
    assert report.native_ops == ()
    stock = tf.nest.flatten(tf.function(step)(*args))
    for value, expected in zip(tf.nest.flatten(ours(*args)), stock, strict=True):
        assert value.shape == expected.shape
        scale = np.abs(expected).max()
        np.testing.assert_allclose(value / scale, expected / scale, rtol=0, atol=2e-5)


def test_grouped_filters():
    """Stock kernels have no grouped convolutions, so the expected values come one by one."""
    strategy = IPUStrategy(enable_keras_extensions=False)
    ours = strategy.run(tf.function(over_first(convolution)), args=(GROUPED, FILTER))
    both = strategy.run(tf.function(mapped(convolution)), args=(GROUPED, FILTERS))

    @tf.function(jit_compile=True)
    def stock(x, w):
        return convolution(x, w)

    for index in range(3):
        np.testing.assert_allclose(ours[index], stock(GROUPED[index], FILTER), atol=1e-4)
        np.testing.assert_allclose(both[index], stock(GROUPED[index], FILTERS[index]), atol=1e-4)


def test_half_precision_with_casts():
    def fn(x, w):
        return tf.vectorized_map(lambda part: tf.matmul(tf.cast(part, tf.float16), w), x)

    half = tf.cast(W, tf.float16)
    strategy = IPUStrategy(enable_keras_extensions=False)
    result = strategy.run(tf.function(fn), args=(X, half))
    assert result.dtype == tf.float16
    np.testing.assert_allclose(result, X @ W, atol=2e-2)


def test_tile_ops_outside_of_a_run_stay_tile_ops():
    function = tf.function(over_first(ops.matmul)).get_concrete_function(X, W)
    types = {op.type for op in function.graph.get_operations()}
    assert "IpuMatMul" in types
    assert "MatMul" not in types
    np.testing.assert_allclose(function(X, W), X @ W, rtol=1e-5, atol=1e-5)


def test_converted_ops_keep_the_rounding_of_the_op():
    cfg = IPUConfig()
    cfg.floating_point_behaviour.esr = config.StochasticRoundingBehaviour.ON
    cfg.configure_ipu_system()
    try:
        strategy = IPUStrategy(enable_keras_extensions=False)
        strategy.run(tf.function(over_first(tf.matmul)), args=(X, W))
    finally:
        config.reset_ipu_configuration()
    assert [op.stochastic_rounding for op in strategy.report().tile_ops] == [True]


def test_a_number_of_iterations_that_is_not_static_is_refused():
    spec = tf.TensorSpec([None, 2, 4])
    with pytest.raises(ValueError, match="number of iterations is not static.*ensure_shape"):
        tf.function(over_first(ops.matmul)).get_concrete_function(spec, W)


class Mixture(keras.layers.Layer):
    """Applies a matrix of its own to each of several parts of its input."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[1], shape[2], 3))

    def call(self, x):
        parts = keras.ops.transpose(x, (1, 0, 2))
        products = keras.ops.vectorized_map(
            lambda pair: keras.ops.matmul(pair[0], pair[1]), (parts, self.kernel)
        )
        return keras.ops.reshape(keras.ops.transpose(products, (1, 0, 2)), (-1, 12))


def trained():
    keras.utils.set_random_seed(5)
    model = keras.Sequential([keras.Input((4, 5)), Mixture(), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    random = np.random.default_rng(1)
    x, y = random.normal(size=(8, 4, 5)), random.normal(size=(8, 2))
    model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
    return model.get_weights()


@pytest.mark.slow
def test_training_a_layer_of_a_vectorised_map_equals_stock_keras():
    strategy = IPUStrategy()
    with strategy.scope():
        ours = trained()
    for value, stock in zip(ours, trained(), strict=True):
        np.testing.assert_allclose(value, stock, rtol=1e-4, atol=1e-5)
    kinds = [op.op_type for op in strategy.report().tile_ops if "mixture" in op.layer]
    assert set(kinds) == {"BatchMatMulV2"}
