"""Wrapped optimizers of TensorFlow 1 in loops, against NumPy, `fit` and the wrapped optimizer."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config, loops, optimizers
from ipu_tf.ipu_infeed_queue import IPUInfeedQueue

V1 = tf.compat.v1.train
METHODS = [
    "sum",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("mean", "running_mean")),
]


@pytest.fixture(scope="module")
def strategy():
    return IPUStrategy()


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    return rng.normal(size=(16, 4, 3)).astype("f"), rng.normal(size=(16, 4, 1)).astype("f")


def train(strategy, data, optimizer, steps, runs=1):
    """Returns the weights of a linear model after training in a loop."""
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(data).repeat())
    weights = tf.Variable(np.full((3, 1), 0.5, "f"))

    @tf.function
    def program():
        def body(x, y):
            loss = tf.reduce_mean((tf.matmul(x, weights) - y) ** 2)
            return optimizer.minimize(loss, var_list=[weights])

        loops.repeat(steps, body, [], infeed)

    for _ in range(runs):
        strategy.run(program)
    return weights.numpy()


def gradient(weights, x, y):
    return 2 * x.T @ (x @ weights - y) / len(x)


@pytest.mark.parametrize("method", METHODS)
def test_accumulation_equals_numpy(strategy, data, method):
    sgd = V1.GradientDescentOptimizer(0.1)
    wrapped = optimizers.GradientAccumulationOptimizerV2(sgd, 4, reduction_method=method)
    # The last two gradients of the first run wait for the second.
    found = train(strategy, data, wrapped, steps=6, runs=2)
    expected = np.full((3, 1), 0.5)
    for update in range(3):
        batches = range(4 * update, 4 * update + 4)
        total = sum(gradient(expected, data[0][k], data[1][k]) for k in batches)
        expected -= 0.1 * total / (1 if method == "sum" else 4)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda opt: optimizers.GradientAccumulationOptimizer(opt, 4),
        lambda opt: halving(optimizers.GradientAccumulationOptimizerV2(opt, 4)),
        lambda opt: optimizers.GradientAccumulationOptimizerV2(halving(opt), 4),
        lambda opt: optimizers.ShardedOptimizer(optimizers.GradientAccumulationOptimizer(opt, 4)),
        lambda opt: optimizers.CrossReplicaGradientAccumulationOptimizer(opt, 4),
        lambda opt: optimizers.CrossReplicaGradientAccumulationOptimizerV2(opt, 4),
        lambda opt: optimizers.CrossReplicaOptimizer(
            optimizers.GradientAccumulationOptimizer(opt, 4)
        ),
    ],
    ids=["first", "mapped", "of-mapped", "sharded", "replicas-first", "replicas", "in-replicas"],
)
def test_all_accumulating_wrappers_keep_the_gradients_of_an_unfinished_update(
    strategy, data, wrap, request
):
    is_halved = "mapped" in request.node.callspec.id
    momentum = V1.MomentumOptimizer(0.2 if is_halved else 0.1, 0.9)
    found = train(strategy, data, wrap(momentum), steps=6, runs=2)
    expected, moment = np.full((3, 1), 0.5), 0.0
    for update in range(3):
        batches = range(4 * update, 4 * update + 4)
        total = sum(gradient(expected, data[0][k], data[1][k]) for k in batches)
        moment = 0.9 * moment + total
        expected -= 0.1 * moment
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def halving(optimizer):
    return optimizers.MapGradientOptimizer(optimizer, lambda gradient, variable: gradient / 2)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_loop_with_accumulation_gives_the_weights_that_fit_gives(strategy, data, method):
    with strategy.scope():
        start = keras.initializers.Constant(0.5)
        model = keras.Sequential([keras.layers.Dense(1, use_bias=False, kernel_initializer=start)])
        model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse", steps_per_execution=8)
        model.set_gradient_accumulation_options(4, gradient_accumulation_reduction_method=method)
        model.fit(tf.data.Dataset.from_tensor_slices(data), verbose=0)
    momentum = V1.MomentumOptimizer(0.1, 0.9)
    wrapped = optimizers.GradientAccumulationOptimizerV2(momentum, 4, reduction_method=method)
    found = train(strategy, data, wrapped, steps=16)
    np.testing.assert_allclose(found, model.get_weights()[0], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: V1.GradientDescentOptimizer(0.05),
        lambda: V1.MomentumOptimizer(0.05, 0.9),
        lambda: V1.AdamOptimizer(0.05),
    ],
    ids=["sgd", "momentum", "adam"],
)
def test_wrappers_without_effect_equal_the_wrapped_optimizer(strategy, data, make):
    expected = train(strategy, data, make(), steps=3)
    for wrap in (
        optimizers.IpuOptimizer,
        optimizers.ShardedOptimizer,
        optimizers.CrossReplicaOptimizer,
        lambda opt: optimizers.MapGradientOptimizer(opt, lambda grad, var: grad),
        lambda opt: optimizers.GradientAccumulationOptimizerV2(opt, 1),
    ):
        np.testing.assert_array_equal(train(strategy, data, wrap(make()), steps=3), expected)


def test_gradients_are_mapped(strategy, data):
    def decay(grad, var):
        return grad + 0.1 * var

    found = train(
        strategy,
        data,
        optimizers.MapGradientOptimizer(V1.GradientDescentOptimizer(0.1), decay),
        steps=2,
    )
    expected = np.full((3, 1), 0.5)
    for k in range(2):
        expected -= 0.1 * (gradient(expected, data[0][k], data[1][k]) + 0.1 * expected)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(
    "wrapper",
    [
        optimizers.CrossReplicaGradientAccumulationOptimizer,
        optimizers.CrossReplicaGradientAccumulationOptimizerV2,
    ],
)
def test_replicas_apply_the_mean_of_their_sums(data, wrapper):
    cfg = IPUConfig()
    cfg.auto_select_ipus = 2
    cfg.configure_ipu_system()
    try:
        wrapped = wrapper(V1.GradientDescentOptimizer(0.1), 2)
        found = train(IPUStrategy(enable_keras_extensions=False), data, wrapped, steps=4)
    finally:
        config.reset_ipu_configuration()
    expected = np.full((3, 1), 0.5)
    for update in range(2):
        batches = range(4 * update, 4 * update + 4)
        expected -= 0.1 * sum(gradient(expected, data[0][k], data[1][k]) for k in batches) / 2
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", [tf.float16, "float16", lambda var: tf.float16])
@pytest.mark.slow
def test_the_type_of_the_sums(strategy, data, dtype):
    wrapped = optimizers.GradientAccumulationOptimizerV2(
        V1.GradientDescentOptimizer(0.1), 2, dtype=dtype
    )
    found = train(strategy, data, wrapped, steps=2)
    total = sum(
        gradient(np.full((3, 1), 0.5), data[0][k], data[1][k]).astype(np.float16) for k in range(2)
    )
    np.testing.assert_allclose(found, 0.5 - 0.1 * total, rtol=1e-3)


@pytest.mark.slow
def test_an_optimizer_that_applies_gradients_itself_gets_the_type_of_the_sums(strategy):
    weight, found = tf.Variable(np.float16(1)), tf.Variable(0.0)

    class Keeps(V1.GradientDescentOptimizer):
        def apply_gradients(self, grads_and_vars, global_step=None, name=None):
            ((gradient, _),) = grads_and_vars
            return found.assign(gradient)

    optimizer = optimizers.GradientAccumulationOptimizerV2(Keeps(1.0), 4, dtype=tf.float32)
    large = tf.constant(np.finfo(np.float16).max)

    @tf.function
    def program():
        loops.repeat(4, lambda: optimizer.minimize(weight * large, var_list=[weight]))

    strategy.run(program)
    assert found == 4 * 65504.0  # It exceeds float16.


def test_slots_and_names_are_those_of_the_wrapped_optimizer(strategy, data):
    momentum = V1.MomentumOptimizer(0.1, 0.9)
    wrapped = optimizers.GradientAccumulationOptimizer(momentum, 2, name="mine")
    train(strategy, data, wrapped, steps=2)
    assert wrapped.get_name() == "mine"
    assert wrapped.get_slot_names() == ["momentum"]
    assert len(wrapped.variables()) == len(momentum.variables()) == 1


class TestErrors:
    """What the optimizers refuse."""

    def test_an_optimizer_of_keras(self):
        for wrap in (optimizers.IpuOptimizer, optimizers.CrossReplicaOptimizer):
            with pytest.raises(TypeError, match=r"wraps a tf.compat.v1.train.Optimizer"):
                wrap(keras.optimizers.SGD())

    @pytest.mark.parametrize("count", [0, -1, 1.5, True])
    def test_numbers_of_mini_batches(self, count):
        for wrap in (
            optimizers.GradientAccumulationOptimizer,
            optimizers.GradientAccumulationOptimizerV2,
        ):
            with pytest.raises(ValueError, match=f"num_mini_batches={count}"):
                wrap(V1.GradientDescentOptimizer(0.1), count)

    def test_reduction_methods_and_optimizers_that_the_first_version_lacks(self):
        with pytest.raises(ValueError, match="Cannot parse max"):
            optimizers.GradientAccumulationOptimizerV2(
                V1.GradientDescentOptimizer(0.1), 2, reduction_method="max"
            )
        with pytest.raises(ValueError, match="Received: opt=AdamOptimizer"):
            optimizers.GradientAccumulationOptimizer(V1.AdamOptimizer(), 2)

    def test_a_program_without_a_loop(self, strategy):
        wrapped = optimizers.GradientAccumulationOptimizerV2(V1.GradientDescentOptimizer(0.1), 2)
        weights = tf.Variable([1.0])

        @tf.function
        def step():
            wrapped.minimize(tf.reduce_sum(weights**2), var_list=[weights])

        with pytest.raises(ValueError, match="No gradient accumulation count instruction found"):
            strategy.run(step)
