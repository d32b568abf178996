"""Gradient accumulation: its options, its dtypes, loss scaling, and what it refuses."""

import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import config
from ipu_tf.gradient_accumulation import GradientAccumulationReductionMethod as Method
from ipu_tf.keras.deployment.model_pipeline import accumulation_of_model
from ipu_tf.keras.options import GradientAccumulationOptions
from ipu_tf.keras.pipeline.pipelining_options import PipeliningOptions
from ipu_tf.keras.replication.accumulation import GradientAccumulator
from ipu_tf.keras.replication.replicas import Replicas
from ipu_tf.processes.reduction_tree import reduced
from tests.grids import mostly_slow
from tests.keras.equivalence import (
    BATCH,
    ScaledLoss,
    batches,
    check_weights,
    samples,
    strategy_of,
)
from tests.keras.small_models import (
    CLASSES,
    FEATURES,
    compile_model,
    loss_scaling_of,
    sequential,
)

G = 4
NORMALIZES = {"experimental_normalize_gradients": True}


@pytest.fixture
def model(strategy):
    keras.utils.set_random_seed(7)
    with strategy.scope():
        return compile_model(sequential(), loss=ScaledLoss(1.0), steps_per_execution=2 * G)


def fit(model, micro_batches=2 * G, **kwargs):
    data = batches(samples(BATCH * micro_batches), BATCH)
    return model.fit(data, shuffle=False, verbose=0, **kwargs)


@functools.cache
def stock_after(factor=1.0, updates=2, build=sequential, optimizer=None):
    keras.utils.set_random_seed(7)
    stock = compile_model(
        build(),
        loss=ScaledLoss(factor),
        **({} if optimizer is None else {"optimizer": optimizer}),
    )
    data = samples(BATCH * G * updates)
    stock.fit(batches(data, BATCH * G), shuffle=False, verbose=0)
    return stock


@pytest.mark.parametrize(
    "method", mostly_slow(["mean", "MEAN", Method.MEAN, "Running_Mean"], fast=["Running_Mean"])
)
@pytest.mark.slow
def test_methods_go_by_any_of_their_names(model, method):
    model.set_gradient_accumulation_options(G, method)
    fit(model)
    check_weights(model, stock_after())


@pytest.mark.parametrize("method", ["mean", "MEAN", Method.MEAN])
def test_names_of_a_method_are_equal(model, method):
    model.set_gradient_accumulation_options(G, method)
    assert accumulation_of_model(model).reduction_method is Method.MEAN


@pytest.mark.slow
def test_gradients_are_summed_by_default(model):
    model.set_gradient_accumulation_options(gradient_accumulation_steps_per_replica=G)
    fit(model)
    check_weights(model, stock_after(factor=float(G)))


@pytest.mark.slow
def test_logs_are_running_metrics_over_all_micro_batches(model):
    compile_model(model, optimizer=keras.optimizers.SGD(0.0), steps_per_execution=2 * G)
    model.set_gradient_accumulation_options(G)
    history = fit(model).history
    loss, accuracy = model.evaluate(batches(samples(BATCH * 2 * G), BATCH), verbose=0)
    assert history["loss"] == [pytest.approx(loss, rel=1e-5)]
    assert history["accuracy"] == [pytest.approx(accuracy)]


@pytest.mark.parametrize("method", mostly_slow(["sum", "mean", "running_mean"], fast=["mean"]))
@pytest.mark.slow
def test_float16_accumulators(model, method):
    model.set_gradient_accumulation_options(G, method, dtype=tf.float16)
    fit(model)
    check_weights(model, stock_after(G if method == "sum" else 1), rtol=5e-3)
    with pytest.raises(AssertionError):
        check_weights(model, stock_after(G if method == "sum" else 1), rtol=1e-7)


def test_the_dtype_of_accumulators():
    variables = [tf.Variable(tf.zeros((2,), dtype)) for dtype in ("float32", "float16")]

    def dtypes(dtype):
        accumulator = GradientAccumulator(variables, GradientAccumulationOptions(dtype=dtype))
        return [total.dtype.name for total in accumulator._sums]

    assert dtypes(None) == ["float32", "float16"]
    assert dtypes("float32") == ["float32", "float32"]
    assert dtypes(lambda variable: tf.float16) == ["float16", "float16"]
    assert dtypes(lambda variable: None) == ["float32", "float16"]


@pytest.mark.parametrize(
    ("dtype", "accumulated"),
    [
        (None, "float16"),
        pytest.param("float32", "float32", marks=pytest.mark.slow),
        pytest.param("bfloat16", "bfloat16", marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_the_optimizer_gets_gradients_in_the_type_of_the_accumulators(strategy, dtype, accumulated):
    seen = set()

    class Seeing(keras.optimizers.SGD):
        def apply(self, grads, trainable_variables=None):
            seen.update(grad.dtype.name for grad in grads)
            super().apply(grads, trainable_variables)

    with strategy.scope():
        layers = [keras.Input((FEATURES,)), keras.layers.Dense(CLASSES, dtype="float16")]
        model = keras.Sequential(layers)
        compile_model(model, optimizer=Seeing(0.1), steps_per_execution=2 * G)
    model.set_gradient_accumulation_options(G, dtype=dtype)
    fit(model)
    assert seen == {accumulated}


@pytest.mark.slow
def test_float32_sums_of_float16_gradients_do_not_overflow_before_they_are_unscaled(strategy):
    """Each scaled gradient is 2**15, four of them 2**17, which float16 does not hold."""
    scaled = keras.mixed_precision.LossScaleOptimizer(
        keras.optimizers.SGD(0.125), initial_scale=2.0**14
    )
    with strategy.scope():
        layer = keras.layers.Dense(1, use_bias=False, dtype="float16", kernel_initializer="ones")
        model = keras.Sequential([keras.Input((1,), dtype="float16"), layer])
        model.compile(scaled, loss=lambda y, y_pred: y_pred, steps_per_execution=G)
    model.set_gradient_accumulation_options(G, dtype=tf.float32)
    x = np.full((G, 1), 2.0, "float16")
    model.fit(x, x, batch_size=1, verbose=0)
    assert int(scaled.iterations) == 1
    assert float(layer.kernel[0, 0]) == 1 - 0.125 * 4 * 2


@pytest.mark.parametrize("method", Method)
def test_sparse_gradients(method):
    table = tf.Variable(tf.zeros((4, 2)))
    options = GradientAccumulationOptions(steps_per_replica=2, reduction_method=method)
    sparse, dense = GradientAccumulator([table], options), GradientAccumulator([table], options)
    for step, rows in enumerate(([0, 2, 0], [3, 2, 2])):
        values = tf.reshape(tf.range(6.0), (3, 2)) + step
        slices = tf.IndexedSlices(values, tf.constant(rows), tf.constant((4, 2)))
        for accumulator, gradient in ((sparse, slices), (dense, tf.convert_to_tensor(slices))):
            accumulator.add([gradient], tf.constant(step))
    np.testing.assert_allclose(sparse.gradients()[0], dense.gradients()[0], rtol=1e-6)
    assert np.abs(dense.gradients()[0]).max() > 0


@pytest.mark.slow
def test_embeddings(strategy):
    def build():
        keras.utils.set_random_seed(7)
        layers = [keras.layers.Embedding(5, 4), keras.layers.Flatten(), keras.layers.Dense(CLASSES)]
        return keras.Sequential([keras.Input((3,), dtype="int32"), *layers])

    random = np.random.default_rng(1)
    x = random.integers(0, 5, (BATCH * 2 * G, 3)).astype("int32")
    y = random.integers(0, CLASSES, BATCH * 2 * G).astype("int32")
    with strategy.scope():
        ours = compile_model(build(), steps_per_execution=2 * G)
    ours.set_gradient_accumulation_options(G, "mean")
    stock = compile_model(build())
    for model, size in ((ours, BATCH), (stock, BATCH * G)):
        model.fit(batches((x, y), size), shuffle=False, verbose=0)
    check_weights(ours, stock)


@pytest.mark.parametrize(
    "optimizer", mostly_slow(["RMSprop", "AdamW", "Adagrad", "Lamb"], fast=["Lamb"])
)
@pytest.mark.slow
def test_any_optimizer(strategy, optimizer):
    make = getattr(keras.optimizers, optimizer)
    keras.utils.set_random_seed(7)
    with strategy.scope():
        model = compile_model(
            sequential(), optimizer=make(0.01), loss=ScaledLoss(1.0), steps_per_execution=2 * G
        )
    model.set_gradient_accumulation_options(G, "mean")
    fit(model)
    check_weights(model, stock_after(optimizer=make(0.01)))


def mixed():
    policy = keras.mixed_precision.Policy("mixed_float16")
    layers = [
        keras.layers.Dense(8, activation="relu", dtype=policy),
        keras.layers.Dense(CLASSES, dtype=policy),
        keras.layers.Activation("linear", dtype="float32"),
    ]
    return keras.Sequential([keras.Input((FEATURES,)), *layers])


@pytest.mark.slow
def test_loss_scaling(strategy):
    def scaled():
        return keras.mixed_precision.LossScaleOptimizer(
            keras.optimizers.SGD(0.1), initial_scale=2.0**10
        )

    keras.utils.set_random_seed(7)
    with strategy.scope():
        model = compile_model(mixed(), optimizer=scaled(), steps_per_execution=2 * G)
    model.set_gradient_accumulation_options(G, "mean", dtype=tf.float32)
    fit(model)
    check_weights(model, stock_after(build=mixed, optimizer=scaled()), rtol=5e-3)
    assert int(model.optimizer.iterations) == 2
    assert loss_scaling_of(model.optimizer)[1] == 2


@pytest.mark.slow
def test_an_update_whose_gradients_overflow_is_left_out(strategy):
    optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(0.1))
    with strategy.scope():
        model = compile_model(sequential(), optimizer=optimizer, steps_per_execution=2 * G)
    model.set_gradient_accumulation_options(G)
    x, y = samples(BATCH * 2 * G)
    x[BATCH] = np.inf  # In the second micro-batch of the first update.
    model.fit(batches((x, y), BATCH), shuffle=False, verbose=0)
    left_out = not hasattr(optimizer, "dynamic_scale")  # Keras 2 counts it.
    assert int(optimizer.iterations) == 1 + left_out
    assert loss_scaling_of(optimizer)[0] == 2.0**14
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


@pytest.mark.slow
def test_an_execution_is_a_number_of_updates(model):
    model.set_gradient_accumulation_options(3)
    message = (
        r"The model has been configured to use gradient accumulation for training, however the "
        r"current `steps_per_execution` value \(set to 8\) is not divisible by "
        r"`gradient_accumulation_steps_per_replica` \(3\).*compile it with a multiple of 3, and "
        r"give the epoch of 8 steps such a multiple, too\.$"
    )
    with pytest.raises(RuntimeError, match=message):
        fit(model)
    data = batches(samples(BATCH * 8), BATCH)
    assert np.isfinite(model.evaluate(data, verbose=0)[0])
    assert model.predict(data, verbose=0).shape == (BATCH * 8, CLASSES)


@pytest.mark.parametrize("method", mostly_slow(["sum", "mean", "running_mean"], fast=["sum"]))
@pytest.mark.slow
def test_a_single_batch_is_that_of_an_update(model, method):
    model.set_gradient_accumulation_options(G, method)
    x, y = samples(BATCH * G * 2)
    for begin in (0, BATCH * G):
        rows = slice(begin, begin + BATCH * G)
        logs = model.train_on_batch(x[rows], y[rows], return_dict=True)
    check_weights(model, stock_after(factor=float(G) if method == "sum" else 1.0))
    assert int(model.optimizer.iterations) == 2
    assert set(logs) == {"loss", "accuracy"}
    assert np.isfinite(model.test_on_batch(*samples(BATCH))[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("factor", "options"),
    [
        (0.5, {"gradient_accumulation_reduction_method": "mean"}),
        pytest.param(1.0, NORMALIZES, marks=pytest.mark.slow),
    ],
    ids=["mean", "normalized"],
)
def test_a_single_batch_is_the_micro_batches_of_all_replicas(strategy, factor, options):
    config.reset_ipu_configuration()
    keras.utils.set_random_seed(7)
    with strategy_of(2).scope():
        model = compile_model(sequential(), loss=ScaledLoss(factor), steps_per_execution=2 * G)
    model.set_gradient_accumulation_options(G, **options)
    stock = stock_after(updates=1)
    loss, accuracy = model.train_on_batch(*samples(BATCH * G))
    config.reset_ipu_configuration()
    check_weights(model, stock)
    assert np.isfinite(loss)
    assert 0 <= accuracy <= 1


def sum_gradients(accumulator, gradient, replicas, steps):
    """Adds the gradients of all steps of replicas that take turns, as loops do, and joins them."""
    accumulator.reset()
    carry = accumulator.empty()
    for step, replica in itertools.product(range(steps), range(replicas)):
        accumulator.begin(carry, tf.constant(replica))
        accumulator.add([gradient(replica, step)], tf.constant(step))
        carry = accumulator.end(carry, tf.constant(replica))
    accumulator.join(carry)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(
    ("replicas", "steps"), [(2, 1), (3, 1), (4, 1), (7, 1), (12, 1), (2, 2), (5, 2)]
)
@pytest.mark.parametrize("sparse", [False, True])
def test_replicas_are_summed_by_a_tree(replicas, steps, sparse):
    """Each replica sums its micro-batches; a tree sums the replicas."""
    table = tf.Variable(tf.zeros((2, 3)))
    options = GradientAccumulationOptions(steps_per_replica=steps)
    accumulator = GradientAccumulator([table], options, Replicas(count=replicas))
    values = np.random.default_rng(1).normal(size=(replicas, steps, 2, 3)).astype(np.float32)
    values[0] *= 1e4

    def gradient(replica, step):
        value = tf.constant(values[replica, step])
        return tf.IndexedSlices(value, tf.range(2)) if sparse else value

    @tf.function  # TensorFlow reorders sums in a graph.
    def run():
        sum_gradients(accumulator, gradient, replicas, steps)

    for _ in range(2):  # The second run does not begin with the sums of the first one.
        run()
    rows = [functools.reduce(np.add, value) for value in values]
    expected = reduced(dict(enumerate(rows)), replicas, np.add)
    np.testing.assert_array_equal(accumulator.gradients()[0], expected)


def test_normalized_gradients_are_means_over_micro_batches_and_replicas():
    options = PipeliningOptions.of(G, None, False, "sum", NORMALIZES)
    weight = tf.Variable(1.0)
    for accumulation in (
        options.accumulation,
        GradientAccumulationOptions.of(G, "sum", NORMALIZES),
    ):
        accumulator = GradientAccumulator([weight], accumulation, Replicas(count=2))
        sum_gradients(accumulator, lambda replica, step: tf.constant(step + replica / 2), 2, G)
        assert accumulator.gradients()[0] == 1.75
    assert GradientAccumulationOptions.of(1, "sum", NORMALIZES).scale(replicas=2) == 1
    with pytest.raises(ValueError, match="`experimental_normalize_gradients=True` is for sums"):
        GradientAccumulationOptions.of(G, "mean", NORMALIZES)


@pytest.mark.slow
def test_the_loss_of_a_single_batch_is_that_of_all_its_micro_batches(model):
    model.set_gradient_accumulation_options(G)
    x, y = samples(BATCH * G)
    expected = model.evaluate(x, y, batch_size=BATCH * G, verbose=0, return_dict=True)["loss"]
    model.reset_metrics()
    assert model.train_on_batch(x, y)[0] == pytest.approx(expected, rel=1e-5)


def test_a_single_batch_has_whole_micro_batches(model):
    model.set_gradient_accumulation_options(G)
    message = (
        r"`train_on_batch` of model .* takes 4 micro-batches of one size, 4 on each of 1 replicas. "
        r"Pass a batch of a multiple of 4 samples. Received: 6 samples"
    )
    with pytest.raises(ValueError, match=message):
        model.train_on_batch(*samples(6))


@pytest.mark.parametrize("wrapped", mostly_slow([False, True], fast=["True"]))
def test_optimizers_with_a_minimize_of_their_own_are_refused(model, wrapped):
    class Own(keras.optimizers.SGD):
        def minimize(self, loss):
            raise AssertionError

    optimizer = keras.mixed_precision.LossScaleOptimizer(Own()) if wrapped else Own()
    compile_model(model, optimizer=optimizer, steps_per_execution=G)
    fit(model)
    model.set_gradient_accumulation_options(G)
    message = "must not override OptimizerV2.minimize.*Received: Own"
    with pytest.raises(ValueError, match=message):
        fit(model)
    with pytest.raises(ValueError, match=message):
        model.train_on_batch(*samples(BATCH))


@pytest.mark.fast_cells(2)
@pytest.mark.parametrize("steps", [0, -1, 1.5, "4", True])
def test_the_number_of_micro_batches_is_checked(model, steps):
    message = "Expected `gradient_accumulation_steps_per_replica` to be a positive integer"
    with pytest.raises(ValueError, match=message):
        model.set_gradient_accumulation_options(steps)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("opt", "it is the optimizer that the model is compiled with"),
        ("num_mini_batches", "set `gradient_accumulation_steps_per_replica` instead"),
        ("reduction_method", "set `gradient_accumulation_reduction_method` instead"),
    ],
)
def test_arguments_that_belong_elsewhere_are_refused(model, name, advice):
    with pytest.raises(ValueError, match=f"`{name}` cannot be set in the .*: .*{advice}"):
        model.set_gradient_accumulation_options(G, **{name: 1})


def test_unknown_arguments_are_refused(model):
    message = "options of gradient_accumulation_optimizer_kwargs: dtyp. Options are dtype, exp"
    with pytest.raises(TypeError, match=message):
        model.set_gradient_accumulation_options(G, dtyp=tf.float16)


@pytest.mark.slow
def test_options_without_effect_on_numbers_are_accepted(model):
    model.set_gradient_accumulation_options(
        G,
        "mean",
        use_v2_gradient_accumulation_optimizer=True,
        offload_weight_update_variables=False,
        replicated_optimizer_state_sharding=True,
    )
    fit(model)
    check_weights(model, stock_after())


@pytest.mark.parametrize("dtype", ["int32", tf.float64])
def test_the_dtype_is_checked(model, dtype):
    with pytest.raises(ValueError, match="floating point types of at most 32 bits. Received: dty"):
        model.set_gradient_accumulation_options(G, dtype=dtype)


def test_the_method_is_checked(model):
    with pytest.raises(ValueError, match="Cannot parse max as one of GradientAccumulationReduc"):
        model.set_gradient_accumulation_options(G, "max")


@pytest.mark.slow
def test_accumulation_can_be_switched_off(model):
    model.set_gradient_accumulation_options(G)
    model.set_gradient_accumulation_options()
    fit(model)
    assert int(model.optimizer.iterations) == 2 * G
