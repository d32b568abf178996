"""fit, evaluate and predict in the scope do as stock Keras does."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import ipu_tf.keras
from tests.grids import mostly_slow
from tests.keras.small_models import (
    CLASSES,
    FEATURES,
    compile_model,
    loss_scaling_of,
    sequential,
)


def pair(strategy, build, **compile_arguments):
    """Returns a model made in the scope and the same model of stock Keras, both compiled."""
    with strategy.scope():
        ours = compile_model(build(), **compile_arguments)
    return ours, compile_model(build(), **compile_arguments)


def check_same_weights(ours, stock, tolerance=1e-5):
    for our_weight, stock_weight in zip(ours.get_weights(), stock.get_weights(), strict=True):
        np.testing.assert_allclose(our_weight, stock_weight, rtol=tolerance, atol=tolerance)


def check_same_logs(ours, stock, tolerance=1e-5):
    assert ours.keys() == stock.keys()
    for name in stock:
        np.testing.assert_allclose(ours[name], stock[name], rtol=tolerance, err_msg=name)


@pytest.mark.parametrize("steps_per_execution", [1, 5])
@pytest.mark.fast_cells(1)
def test_fit_equals_stock_keras(strategy, build, data, steps_per_execution):
    x, y = data
    ours, stock = pair(strategy, build, steps_per_execution=steps_per_execution)
    histories = [
        model.fit(
            x[:40],
            y[:40],
            batch_size=8,
            epochs=2,
            shuffle=False,
            verbose=0,
            validation_data=(x[40:], y[40:]),
        ).history
        for model in (ours, stock)
    ]
    check_same_logs(*histories)
    check_same_weights(ours, stock)


@pytest.mark.parametrize("steps_per_execution", [1, 2])
@pytest.mark.slow
def test_evaluate_and_predict_equal_stock_keras(strategy, build, data, steps_per_execution):
    x, y = data
    ours, stock = pair(strategy, build, steps_per_execution=steps_per_execution)
    check_same_logs(
        *(
            model.evaluate(x[:32], y[:32], batch_size=8, verbose=0, return_dict=True)
            for model in (ours, stock)
        )
    )
    predictions = [model.predict(x[:32], batch_size=8, verbose=0) for model in (ours, stock)]
    np.testing.assert_allclose(*predictions, rtol=1e-5, atol=1e-6)
    assert isinstance(predictions[0], np.ndarray)


def test_train_on_batch_equals_stock_keras(strategy, data):
    x, y = (part[:8] for part in data)
    ours, stock = pair(strategy, lambda: seeded(sequential))
    check_same_logs(*(model.train_on_batch(x, y, return_dict=True) for model in (ours, stock)))
    check_same_weights(ours, stock)


@pytest.mark.slow
def test_on_batch_methods_equal_stock_keras(strategy, build, data):
    x, y = data
    ours, stock = pair(strategy, build)
    for _ in range(2):
        logs = [model.train_on_batch(x, y, return_dict=True) for model in (ours, stock)]
        check_same_logs(*logs)
    check_same_logs(*(model.test_on_batch(x, y, return_dict=True) for model in (ours, stock)))
    np.testing.assert_allclose(
        ours.predict_on_batch(x), stock.predict_on_batch(x), rtol=1e-5, atol=1e-6
    )
    check_same_weights(ours, stock)


def dataset_of(x, y, batch_size):
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(batch_size, drop_remainder=True)


@pytest.mark.slow
@pytest.mark.parametrize("in_scope", mostly_slow([True, False], fast=["True"]))
def test_datasets(strategy, data, in_scope):
    ours, stock = pair(strategy, lambda: seeded(sequential))
    dataset = dataset_of(*data, 16)
    stock_logs = stock.fit(dataset, shuffle=False, verbose=0, validation_data=dataset).history
    if in_scope:
        with strategy.scope():
            logs = ours.fit(dataset, shuffle=False, verbose=0, validation_data=dataset).history
            predictions = ours.predict(dataset, verbose=0)
    else:
        logs = ours.fit(dataset, shuffle=False, verbose=0, validation_data=dataset).history
        predictions = ours.predict(dataset, verbose=0)
    check_same_logs(logs, stock_logs)
    np.testing.assert_allclose(predictions, stock.predict(dataset, verbose=0), rtol=1e-5, atol=1e-6)


def seeded(build):
    keras.utils.set_random_seed(7)
    return build()


def test_a_dataset_loses_no_batch_to_building(strategy, data):
    x, y = data
    drawn = []

    def batches():
        for begin in range(0, 48, 16):
            drawn.append(begin)
            yield x[begin : begin + 16], y[begin : begin + 16]

    signature = (
        tf.TensorSpec((16, FEATURES), tf.float32),
        tf.TensorSpec((16,), tf.int32),
    )
    dataset = tf.data.Dataset.from_generator(batches, output_signature=signature)
    with strategy.scope():
        model = compile_model(sequential())
    model.fit(dataset, steps_per_epoch=3, shuffle=False, verbose=0)
    assert drawn == [0, 16, 32]


@pytest.mark.slow
def test_tensors_and_weights(strategy, data):
    x, y = data
    weights = np.linspace(0, 1, 48, dtype="float32")
    ours, stock = pair(strategy, lambda: seeded(sequential), weighted_metrics=["accuracy"])
    arguments = {"batch_size": 12, "shuffle": False, "verbose": 0}
    logs = ours.fit(tf.constant(x), tf.constant(y), sample_weight=tf.constant(weights), **arguments)
    stock_logs = stock.fit(x, y, sample_weight=weights, **arguments)
    check_same_logs(logs.history, stock_logs.history)


@pytest.mark.parametrize("as_dataset", mostly_slow([True, False], fast=["True"]))
@pytest.mark.slow
def test_class_weights(strategy, data, as_dataset):
    x, y = data
    ours, stock = pair(strategy, lambda: seeded(sequential))
    arguments = {"class_weight": {0: 1.0, 1: 5.0, 2: 0.5}, "shuffle": False, "verbose": 0}
    if as_dataset:
        histories = [m.fit(dataset_of(x, y, 16), **arguments).history for m in (ours, stock)]
    else:
        histories = [m.fit(x, y, batch_size=16, **arguments).history for m in (ours, stock)]
    check_same_logs(*histories)


def two_inputs_two_outputs():
    keras.utils.set_random_seed(7)
    a, b = keras.Input((2,), name="a"), keras.Input((3,), name="b")
    joined = keras.layers.Concatenate()([a, b])
    return keras.Model(
        {"a": a, "b": b},
        {
            "c": keras.layers.Dense(1, name="c")(joined),
            "d": keras.layers.Dense(2, name="d")(joined),
        },
    )


@pytest.mark.parametrize("steps_per_execution", mostly_slow([1, 3], fast=["3"]))
@pytest.mark.slow
def test_structures_of_inputs_and_outputs(strategy, steps_per_execution):
    random = np.random.default_rng(3)
    x = {name: random.normal(size=(24, n)).astype("float32") for name, n in (("a", 2), ("b", 3))}
    y = {name: random.normal(size=(24, n)).astype("float32") for name, n in (("c", 1), ("d", 2))}
    ours, stock = pair(
        strategy,
        two_inputs_two_outputs,
        loss={"c": "mse", "d": "mae"},
        metrics=None,
        steps_per_execution=steps_per_execution,
    )
    arguments = {"batch_size": 8, "shuffle": False, "verbose": 0}
    check_same_logs(ours.fit(x, y, **arguments).history, stock.fit(x, y, **arguments).history)
    ours_out = ours.predict(x, batch_size=8, verbose=0)
    stock_out = stock.predict(x, batch_size=8, verbose=0)
    for name in stock_out:
        np.testing.assert_allclose(ours_out[name], stock_out[name], rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_validation_split_equals_stock_keras(strategy, data):
    x, y = data
    ours, stock = pair(strategy, lambda: seeded(sequential))
    arguments = {"batch_size": 8, "shuffle": False, "verbose": 0, "validation_split": 1 / 3}
    histories = [model.fit(x, y, **arguments).history for model in (ours, stock)]
    check_same_logs(*histories)
    assert "val_loss" in histories[0]


class Recorder(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.events = []

    def on_train_batch_begin(self, batch, logs=None):
        self.events.append(("begin", batch))

    def on_train_batch_end(self, batch, logs=None):
        self.events.append(("end", batch))

    def on_test_batch_end(self, batch, logs=None):
        self.events.append(("test", batch))

    def on_predict_batch_end(self, batch, logs=None):
        self.events.append(("predict", batch))


@pytest.mark.parametrize("steps_per_execution", mostly_slow([1, 3], fast=["3"]))
@pytest.mark.slow
def test_callbacks_see_the_batches_of_stock_keras(strategy, data, steps_per_execution):
    x, y = data
    recorders = []
    for model in pair(strategy, sequential, steps_per_execution=steps_per_execution):
        recorders.append(Recorder())
        arguments = {"batch_size": 8, "verbose": 0, "callbacks": [recorders[-1]]}
        model.fit(x, y, **arguments)
        model.evaluate(x, y, **arguments)
        model.predict(x, **arguments)
    assert recorders[0].events == recorders[1].events


def test_a_callback_stops_training(strategy, data):
    class Stop(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.stop_training = epoch == 1

    with strategy.scope():
        model = compile_model(sequential())
    history = model.fit(*data, batch_size=16, epochs=9, verbose=0, callbacks=[Stop()])
    assert history.epoch == [0, 1]


@pytest.mark.slow
def test_mixed_float16(strategy, data):
    x, y = data
    policy = keras.mixed_precision.Policy("mixed_float16")

    def build():
        keras.utils.set_random_seed(7)
        inputs = keras.Input((FEATURES,))
        hidden = keras.layers.Dense(8, activation="relu", dtype=policy)(inputs)
        outputs = keras.layers.Dense(CLASSES, dtype=policy)(hidden)
        outputs = keras.layers.Activation("linear", dtype="float32")(outputs)
        return keras.Model(inputs, outputs)

    def scaled_optimizer():
        return keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(0.1))

    with strategy.scope():
        ours = compile_model(build(), optimizer=scaled_optimizer())
    stock = compile_model(build(), optimizer=scaled_optimizer())
    arguments = {"batch_size": 16, "epochs": 2, "shuffle": False, "verbose": 0}
    histories = [model.fit(x, y, **arguments).history for model in (ours, stock)]
    check_same_logs(*histories, tolerance=5e-3)
    check_same_weights(ours, stock, tolerance=5e-3)
    assert int(ours.optimizer.iterations) == int(stock.optimizer.iterations) == 6


@pytest.mark.slow
def test_a_global_mixed_policy_wraps_the_optimizer(strategy, data):
    x, y = data
    previous = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        with strategy.scope():
            model = compile_model(sequential())
        loss = model.fit(x, y, batch_size=16, epochs=3, verbose=0).history["loss"]
        model.predict(x, batch_size=16, verbose=0)
    finally:
        keras.mixed_precision.set_global_policy(previous)
    assert isinstance(model.optimizer, keras.mixed_precision.LossScaleOptimizer)
    assert loss[-1] < loss[0]


def test_gradients_that_overflow_leave_the_weights(strategy, data):
    x, y = data
    with strategy.scope():
        model = compile_model(
            seeded(sequential),
            optimizer=keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(0.1)),
        )
    before = model.get_weights()
    model.train_on_batch(x * np.float32("inf"), y)
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    assert loss_scaling_of(model.optimizer)[0] < 2**15


@pytest.mark.slow
def test_jit_compile_is_accepted(strategy, data):
    ours, stock = pair(strategy, lambda: seeded(sequential), jit_compile=True)
    arguments = {"batch_size": 16, "shuffle": False, "verbose": 0}
    histories = [model.fit(*data, **arguments).history for model in (ours, stock)]
    check_same_logs(*histories)
    assert ours.jit_compile is True


@pytest.mark.slow
def test_a_model_with_its_own_strategy_is_not_ours(data):
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
        model = compile_model(ipu_tf.keras.Sequential([keras.layers.Dense(CLASSES)]))
    x, y = data
    model.fit(x, y.astype("int64"), batch_size=20, verbose=0)
    assert model.predict(x, batch_size=20, verbose=0).shape == (48, CLASSES)
    assert len(model.evaluate(x, y, batch_size=20, verbose=0)) == 2


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
def test_a_subclass_without_call_is_refused(strategy, data, method):
    class Empty(keras.Model):
        pass

    with strategy.scope():
        model = compile_model(Empty())
    x, y = data
    with pytest.raises(NotImplementedError, match="'empty.*' does not implement `call`.*Empty"):
        getattr(model, method)(x, *([] if method == "predict" else [y]), batch_size=16, verbose=0)


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict", "train_on_batch"])
def test_eager_models_are_refused(strategy, data, method):
    x, y = data
    with strategy.scope():
        model = compile_model(sequential(), run_eagerly=True)
    with pytest.raises(RuntimeError, match="Keras models cannot run eagerly when using `IPUSt"):
        getattr(model, method)(x, *([] if method == "predict" else [y]))


def test_eager_functions_are_refused(strategy, data):
    with strategy.scope():
        model = compile_model(sequential())
    tf.config.run_functions_eagerly(True)
    try:
        with pytest.raises(RuntimeError, match=r"run_functions_eagerly\(True\)` is set"):
            model.fit(*data, batch_size=16, verbose=0)
    finally:
        tf.config.run_functions_eagerly(False)


@pytest.mark.parametrize("wrapped", mostly_slow([True, False], fast=["True"]))
@pytest.mark.slow
def test_an_optimizer_made_outside_of_the_scope(strategy, data, wrapped):
    x, y = data
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    if wrapped:
        optimizer = keras.mixed_precision.LossScaleOptimizer(optimizer)
    with strategy.scope():
        model = seeded(sequential)
    compile_model(model, optimizer=optimizer)
    stock = compile_model(seeded(sequential))
    arguments = {"batch_size": 16, "shuffle": False, "verbose": 0}
    check_same_logs(model.fit(x, y, **arguments).history, stock.fit(x, y, **arguments).history)


def test_outputs_without_a_batch_axis_are_stacked(strategy, data):
    class Mean(keras.Model):
        def call(self, inputs):
            return tf.reduce_mean(inputs)

    x, _ = data
    with strategy.scope():
        model = Mean()
        model.compile(steps_per_execution=3)
    means = model.predict(x, batch_size=16, verbose=0)
    np.testing.assert_allclose(means, x.reshape(3, -1).mean(axis=1), rtol=1e-5)
