"""Replicas: how many, which data they get, what they share and what each has for itself."""

import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config
from ipu_tf.keras.loop import jitting
from ipu_tf.keras.options import ReplicatedMetricReductionMethod as Reduction
from ipu_tf.keras.replication import replica_state
from ipu_tf.keras.replication.replica_state import ReplicaState
from tests.grids import covering, mostly_slow
from tests.keras.equivalence import BATCH, batches, check_weights, samples, strategy_of
from tests.keras.small_models import CLASSES, FEATURES, compile_model, sequential


@pytest.fixture(autouse=True)
def _no_configuration_is_left():
    yield
    config.reset_ipu_configuration()


def replicated(ipus, build=sequential, **arguments):
    keras.utils.set_random_seed(7)
    with strategy_of(ipus).scope():
        return compile_model(build(), **arguments)


def fit(model, batch_count, seed=11, **kwargs):
    data = batches(samples(BATCH * batch_count, seed), BATCH)
    return model.fit(data, shuffle=False, verbose=0, **kwargs).history


@pytest.mark.parametrize(
    ("ipus", "stages", "replicas"), [(1, 1, 1), (4, 1, 4), (4, 2, 2), (8, 3, 2), (4, 4, 1)]
)
def test_the_number_of_replicas(ipus, stages, replicas):
    assert replica_state.replication_factor(strategy_of(ipus), stages) == replicas


def test_a_model_that_needs_more_ipus_than_there_are_is_refused():
    message = "Current device has 2 IPUs attached, however the current model requires a multiple of"
    with pytest.raises(ValueError, match=f"{message} 4 IPUs"):
        replica_state.replication_factor(strategy_of(2), 3)


def test_the_device_of_the_strategy_counts():
    cfg = IPUConfig()
    cfg.auto_select_ipus = [1, 4]
    cfg.configure_ipu_system()
    assert replica_state.replication_factor(IPUStrategy("/device:IPU:1")) == 4


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(("ipus", "micro_batches"), [(4, 1), (2, 3), (2, 1)])
def test_replicas_train_the_same_where_the_model_asks_for_xla(ipus, micro_batches, caplog):
    models, logs = [], []
    for jit_compile in (True, False):
        model = replicated(ipus, steps_per_execution=micro_batches, jit_compile=jit_compile)
        if micro_batches > 1:
            model.set_gradient_accumulation_options(
                gradient_accumulation_steps_per_replica=micro_batches,
                gradient_accumulation_reduction_method="running_mean",
            )
        caplog.clear()
        with caplog.at_level(logging.INFO, jitting.__name__):
            logs.append(fit(model, 2 * ipus * micro_batches, epochs=2))
        assert ("is compiled by XLA" in caplog.text) == jit_compile
        models.append(model)
    for name, values in logs[1].items():
        np.testing.assert_allclose(logs[0][name], values, rtol=1e-5)
    check_weights(*models)


@pytest.mark.slow
@pytest.mark.parametrize("steps_per_execution", mostly_slow([1, 3], fast=["3"]))
def test_a_step_takes_a_batch_for_each_replica(steps_per_execution, caplog):
    ours = replicated(2, steps_per_execution=steps_per_execution)
    with caplog.at_level(logging.INFO, "ipu_tf"):
        fit(ours, 6)
    assert int(ours.optimizer.iterations) == 3
    assert "a weight update sees 8 samples: batches of 4, 1 micro-batches, 2 repl" in caplog.text


@pytest.mark.slow
def test_batches_that_are_left_over_are_dropped(caplog):
    model = replicated(4)
    with caplog.at_level(logging.WARNING, "ipu_tf"):
        fit(model, 11)
    assert int(model.optimizer.iterations) == 2
    assert "the last 3 of 11 batches are dropped" in caplog.text


def test_data_for_some_replicas_is_refused():
    message = "The provided dataset contains 3 items, but all 4 replicas are requested to run at"
    with pytest.raises(ValueError, match=message):
        fit(replicated(4), 3)


@pytest.mark.slow
def test_steps_per_epoch_count_the_batches_of_all_replicas():
    """Three updates of two batches each are three of stock Keras with batches twice as large."""

    def build():
        keras.utils.set_random_seed(7)
        return sequential()

    with strategy_of(2).scope():
        ours = compile_model(build(), optimizer=keras.optimizers.SGD(0.05))
    history = ours.fit(
        batches(samples(BATCH * 12), BATCH), steps_per_epoch=6, epochs=2, shuffle=False, verbose=0
    )
    assert int(ours.optimizer.iterations) == 6
    assert history.params["steps"] == 3
    stock = compile_model(build(), optimizer=keras.optimizers.SGD(0.1))
    data = batches(samples(BATCH * 12), 2 * BATCH)
    stock.fit(data, steps_per_epoch=3, epochs=2, shuffle=False, verbose=0)
    check_weights(ours, stock)


@pytest.mark.slow
@pytest.mark.parametrize("given", mostly_slow([True, False], fast=["True"]))
def test_steps_of_inference_count_the_batches_of_all_replicas(given, caplog):
    model = replicated(2)
    x, y = samples(BATCH * (12 if given else 5))
    rows = slice(0, BATCH * 4)  # Two steps of two replicas.
    arguments = {"batch_size": BATCH, "verbose": 0} | ({"steps": 5} if given else {})
    with caplog.at_level(logging.WARNING, "ipu_tf"):
        outputs = model.predict(x, **arguments)
    np.testing.assert_allclose(outputs, model(x[rows]), rtol=1e-5, atol=1e-6)
    kept = " of `steps`" if given else ""
    assert f"the last 1 of 5 batches{kept} are dropped, because every step takes" in caplog.text
    model.set_replication_options("mean")
    loss = model.evaluate(x, y, **arguments)[0]
    expected = float(model.compute_loss(y=tf.constant(y[rows]), y_pred=model(x[rows])))
    assert loss == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_validation_steps_count_the_batches_of_all_replicas():
    model = replicated(2, optimizer=keras.optimizers.SGD(0.0))
    model.set_replication_options("mean")
    x, y = samples(BATCH * 12, seed=5)
    validation = {"validation_data": batches((x, y), BATCH), "validation_steps": 4}
    rows = slice(0, BATCH * 4)
    expected = float(model.compute_loss(y=tf.constant(y[rows]), y_pred=model(x[rows])))
    losses = fit(model, 4, epochs=2, **validation)["val_loss"]
    np.testing.assert_allclose(losses, [expected] * 2, rtol=1e-5)


@pytest.mark.slow
def test_enough_data_is_what_all_replicas_read():
    model = replicated(2)
    message = "3 steps in each of 2 epochs on each of 2 replicas need 12 batches.*Received: 11 batc"
    with pytest.raises(ValueError, match=message):
        fit(model, 11, steps_per_epoch=6, epochs=2)
    fit(model, 12, steps_per_epoch=7, epochs=2)  # The seventh batch has no partner.
    assert int(model.optimizer.iterations) == 6


@pytest.mark.slow
def test_enough_data_for_the_replicas_of_a_model_that_is_built_by_fit():
    def unbuilt():
        return keras.Sequential([keras.layers.Dense(CLASSES)])

    model = replicated(4, unbuilt)
    fit(model, 12, steps_per_epoch=5, epochs=3)
    assert int(model.optimizer.iterations) == 3


@pytest.mark.slow
def test_a_dataset_as_long_as_an_epoch_is_read_again_without_its_rest():
    seen = []

    class Inputs(keras.layers.Layer):
        def call(self, inputs):
            tf.py_function(lambda rows: seen.append(int(rows[0])), [inputs[:, 0]], [])
            return inputs

    def build():
        return keras.Sequential([keras.Input((FEATURES,)), Inputs(), keras.layers.Dense(CLASSES)])

    model = replicated(2, build)
    x, y = samples(BATCH * 5)
    x[:, 0] = np.arange(BATCH * 5) // BATCH
    dataset = batches((x, y), BATCH)
    model.fit(dataset, steps_per_epoch=len(dataset), epochs=2, shuffle=False, verbose=0)
    assert seen == [0, 1, 2, 3] * 2


@pytest.mark.parametrize(
    ("size", "contained"), [(12, "12"), (None, "an unknown number of")], ids=["known", "endless"]
)
def test_fewer_steps_than_replicas_are_refused(size, contained):
    message = (
        f"The provided dataset contains {contained} items, of which `steps` takes 3, but all 4 "
        "replicas are requested to run at least one batch. `steps` counts the batches of all "
        "replicas: pass at least 4, or use fewer IPUs."
    )
    data = batches(samples(BATCH * 12), BATCH)
    with pytest.raises(ValueError, match=message):
        replicated(4).evaluate(data if size else data.repeat(), steps=3)


@pytest.mark.slow
def test_shuffled_arrays_are_seen_whole():
    seen = []

    class Inputs(keras.layers.Layer):
        def call(self, inputs):
            tf.py_function(lambda rows: seen.extend(rows.numpy().tolist()), [inputs[:, 0]], [])
            return inputs

    def build():
        return keras.Sequential([keras.Input((FEATURES,)), Inputs(), keras.layers.Dense(CLASSES)])

    model = replicated(2, build, steps_per_execution=2)
    x, y = samples(16)
    x[:, 0] = np.arange(16)
    model.fit(x, y, batch_size=4, verbose=0)
    assert sorted(seen) == list(range(16))
    assert seen != list(range(16))


@pytest.mark.parametrize("ipus", mostly_slow([2, 4], fast=["4"]))
def test_predictions_are_in_the_order_of_the_data(ipus):
    model = replicated(ipus, steps_per_execution=2)
    x, _ = samples(BATCH * 8)
    outputs = model.predict(x, batch_size=BATCH, verbose=0)
    np.testing.assert_allclose(outputs, model(x), rtol=1e-5, atol=1e-6)


def replica_losses(model, replicas, steps):
    """Returns the running mean loss of each replica over its batches."""
    x, y = samples(BATCH * replicas * steps)
    losses = np.zeros((steps, replicas))
    for index in range(steps * replicas):
        rows = slice(index * BATCH, (index + 1) * BATCH)
        loss = model.compute_loss(y=tf.constant(y[rows]), y_pred=model(x[rows]))
        losses[index // replicas, index % replicas] = loss
    return losses.mean(axis=0)


@pytest.mark.slow
@pytest.mark.parametrize(*covering(1, method=list(Reduction), steps_per_execution=[2, 1]))
@pytest.mark.fast_cells(2)
def test_logs_of_replicas_are_reduced(method, steps_per_execution):
    replicas, steps = 4, 4
    model = replicated(
        replicas, optimizer=keras.optimizers.SGD(0.0), steps_per_execution=steps_per_execution
    )
    model.set_replication_options(method)
    each = replica_losses(model, replicas, steps)
    expected = {
        Reduction.NONE: each[-1],
        Reduction.LIST: each,
        Reduction.SUM: each.sum(),
        Reduction.MEAN: each.mean(),
    }[method]
    for history in (fit(model, 16), fit(model, 16)):
        np.testing.assert_allclose(history["loss"][0], expected, rtol=1e-5)
    data = batches(samples(BATCH * 16), BATCH)
    logs = model.evaluate(data, verbose=0, return_dict=True)
    np.testing.assert_allclose(logs["loss"], expected, rtol=1e-5)


@pytest.mark.slow
def test_lists_of_metrics_are_printed_as_their_mean(capsys):
    model = replicated(2, optimizer=keras.optimizers.SGD(0.0))
    model.set_replication_options("list")
    data = batches(samples(BATCH * 4), BATCH)
    history = model.fit(data, shuffle=False, verbose=2).history
    assert f"loss: {np.mean(history['loss'][0]):.4f}" in capsys.readouterr().out


def test_the_method_is_checked():
    with pytest.raises(ValueError, match="Cannot parse max as a ReplicatedMetricReductionMethod"):
        replicated(1).set_replication_options("max")


@pytest.mark.parametrize(("method", "calls"), [("none", 8), ("list", 4)])
@pytest.mark.slow
def test_asynchronous_callbacks_see_every_replica(method, calls):
    seen = []

    class Seen(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append((batch, np.array(logs["loss"])))

    model = replicated(2, optimizer=keras.optimizers.SGD(0.0), steps_per_execution=2)
    model.set_replication_options(method)
    model.set_asynchronous_callbacks(True)
    fit(model, 8, callbacks=[Seen()])
    assert [batch for batch, _ in seen] == sorted([*range(4)] * (calls // 4))
    each = replica_losses(model, 2, 4)
    last = [loss for _, loss in seen[-2:]] if method == "none" else seen[-1][1]
    np.testing.assert_allclose(last, each, rtol=1e-5)


@pytest.mark.parametrize("method", mostly_slow(["none", "mean"], fast=["none"]))
@pytest.mark.slow
def test_asynchronous_callbacks_see_the_predictions_of_every_replica(method):
    seen, outputs = [], []

    class Seen(keras.callbacks.Callback):
        def on_predict_batch_begin(self, batch, logs=None):
            seen.append(("begin", batch))

        def on_predict_batch_end(self, batch, logs=None):
            seen.append(("end", batch))
            outputs.append(logs["outputs"])

    model = replicated(2, steps_per_execution=2)
    model.set_replication_options(method)
    model.set_asynchronous_callbacks(True)
    x, _ = samples(BATCH * 8)
    predictions = model.predict(x, batch_size=BATCH, verbose=0, callbacks=[Seen()])
    steps = [step for step in range(4) for _ in range(2)]
    assert seen == [(event, step) for step in steps for event in ("begin", "end")]
    np.testing.assert_array_equal(np.stack(outputs), predictions.reshape(8, BATCH, CLASSES))


def normalised():
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            keras.layers.BatchNormalization(momentum=0.5),
            keras.layers.Dense(CLASSES),
        ]
    )


def moving_means(updates, group, replicas=4):
    """Returns the moving mean of the last replica, worked by hand."""
    x, _ = samples(BATCH * replicas * updates)
    by_step = x.reshape(updates, replicas, BATCH, FEATURES)
    mean = np.zeros(FEATURES)
    for step in by_step:
        mean = 0.5 * mean + 0.5 * step[replicas - group :].reshape(-1, FEATURES).mean(axis=0)
    return mean


def grouped(ipus, group):
    cfg = IPUConfig()
    cfg.auto_select_ipus = ipus
    cfg.norms.experimental.distributed_batch_norm_replica_group_size = group
    cfg.configure_ipu_system()
    return IPUStrategy()


@pytest.mark.parametrize("group", mostly_slow([1, 2, 4], fast=["2"]))
def test_statistics_of_batch_norm_are_those_of_a_group(group):
    keras.utils.set_random_seed(7)
    with grouped(4, group).scope():
        model = compile_model(normalised(), steps_per_execution=3)
    fit(model, 12)
    moving_mean = model.layers[0].moving_mean
    np.testing.assert_allclose(moving_mean, moving_means(3, group), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_batch_norm_over_all_replicas_equals_the_big_batch():
    def build():
        keras.utils.set_random_seed(7)
        return normalised()

    with grouped(4, 4).scope():
        ours = compile_model(build(), optimizer="sgd", steps_per_execution=3)
    fit(ours, 12)
    stock = compile_model(build(), optimizer=keras.optimizers.SGD(0.04))
    data = samples(BATCH * 12)
    stock.fit(batches(data, BATCH * 4), shuffle=False, verbose=0)
    check_weights(ours, stock)


@pytest.mark.parametrize("group", mostly_slow([2, 4], fast=["2"]))
@pytest.mark.slow
def test_metrics_of_a_group_are_those_of_its_replicas(group):
    with grouped(4, group).scope():
        model = compile_model(sequential(), optimizer=keras.optimizers.SGD(0.0))
    model.set_replication_options("list")
    np.testing.assert_allclose(fit(model, 8)["loss"][0], replica_losses(model, 4, 2), rtol=1e-5)


def test_a_group_that_does_not_divide_the_replicas_is_refused():
    with grouped(4, 3).scope():
        model = compile_model(sequential())
    with pytest.raises(ValueError, match="must divide the number of replicas. Received: 3, with 4"):
        fit(model, 8)


def noisy():
    return keras.Sequential([keras.Input((FEATURES,)), keras.layers.GaussianNoise(1.0, seed=5)])


@pytest.mark.slow
def test_replicas_draw_different_random_numbers():
    model = replicated(2, noisy, loss="mse", metrics=None)
    model.set_replication_options("list")
    x = np.zeros((2 * BATCH, FEATURES), "float32")

    def losses():
        return model.fit(x, x, batch_size=BATCH, shuffle=False, verbose=0).history["loss"][0]

    with pytest.warns(UserWarning, match="does not have any trainable weights"):
        first = losses()
    second = losses()
    assert len({*first, *second}) == 4


def state_of(copies, value=1.0):
    variable = tf.Variable([value, 2.0])
    return variable, ReplicaState([variable], (), copies)


def values_of(variable, state, copies):
    values = []
    for replica in range(copies):
        state.load(tf.constant(replica))
        values.append(variable.numpy().tolist())
    return values


def test_state_is_kept_for_each_replica():
    variable, state = state_of(3)
    for replica in range(3):
        variable.assign([replica, replica])
        state.store(tf.constant(replica))
    assert values_of(variable, state, 3) == [[0, 0], [1, 1], [2, 2]]
    state.broadcast_changes()
    assert values_of(variable, state, 3) == [[0, 0], [1, 1], [2, 2]]


def test_what_is_written_from_outside_goes_to_every_replica():
    variable, state = state_of(2)
    variable.assign([5.0, 5.0])
    state.broadcast_changes()
    assert values_of(variable, state, 2) == [[5, 5], [5, 5]]


def test_not_a_number_is_no_change():
    variable, state = state_of(2, value=np.nan)
    variable.assign([3.0, 4.0])
    state.store(tf.constant(0))
    variable.assign([np.nan, 2.0])
    state.store(tf.constant(1))
    state.broadcast_changes()
    assert values_of(variable, state, 2)[0] == [3, 4]


def test_seeds_are_spread_from_that_of_the_last_replica():
    seed = tf.Variable(tf.constant([7, 3], tf.uint32))
    state = ReplicaState([seed], [seed], 4)
    states = values_of(seed, state, 4)
    assert states[-1] == [7, 3]
    assert len({first for first, _ in states}) == 4
    assert {counter for _, counter in states} == {3}


@pytest.mark.slow
def test_loaded_weights_reach_every_replica():
    model = replicated(2, normalised, steps_per_execution=2)
    weights = model.get_weights()
    first = fit(model, 4)["loss"]
    model.set_weights(weights)
    model.optimizer.set_weights([np.zeros(v.shape) for v in model.optimizer.variables])
    model.optimizer.learning_rate = 0.1
    np.testing.assert_allclose(fit(model, 4)["loss"], first, rtol=1e-6)


@pytest.mark.slow
def test_single_batches():
    model = replicated(2)
    with pytest.raises(ValueError, match="takes 2 micro-batches of one size, 1 on each of 2 repl"):
        model.train_on_batch(*samples(BATCH - 1))
    model.train_on_batch(*samples(BATCH))
    assert int(model.optimizer.iterations) == 1
    x, y = samples(BATCH)
    np.testing.assert_allclose(model.predict_on_batch(x), model(x), rtol=1e-5, atol=1e-6)
    loss = float(model.compute_loss(y=tf.constant(y), y_pred=model(x)))
    assert model.test_on_batch(x, y)[0] == pytest.approx(loss, rel=1e-5)


@pytest.mark.slow
def test_trainable_weights_are_not_copied():
    model = replicated(4, steps_per_execution=2)
    fit(model, 8)
    replicas = model.ipu_training_loop.functions.replicas
    state = replicas.group_state, replicas.metrics
    copied = sum(values.shape.num_elements() for part in state for values in part._values)
    of_metrics = sum(variable.value.shape.num_elements() for variable in model.metrics_variables)
    assert copied == 4 * of_metrics


def test_an_unbuilt_model_predicts():
    class Late(keras.Model):
        def __init__(self):
            super().__init__()
            self.norm = keras.layers.BatchNormalization()
            self.head = keras.layers.Dense(CLASSES)

        def call(self, inputs):
            return self.head(self.norm(inputs))

    with strategy_of(2).scope():
        model = Late()
    x, _ = samples(2 * BATCH)
    np.testing.assert_allclose(
        model.predict(x, batch_size=BATCH, verbose=0), model(x), rtol=1e-5, atol=1e-6
    )
