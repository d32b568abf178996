"""Models of tf_keras in the scope: they train as in stock tf_keras, on the on-device loop."""

import contextlib
import logging
import pickle
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import ipu_tf
from ipu_tf.keras import tf_keras_scope
from ipu_tf.keras.tf_keras.loop_adapter import EpochReader
from ipu_tf.profile.figures import program_figures as figures
from ipu_tf.strategy.program_trace import is_keras_step
from tests.keras.tf_keras_training import (
    TOKENS,
    X,
    Y,
    check_equal,
    check_equal_weights,
    embedded,
    functional,
    sequential,
    strategy_of,
    trained,
)

tf_keras = pytest.importorskip("tf_keras")


def check_rows(program, model):
    """The rows of a report are layers, loss, metrics and the optimizer, with their phases."""
    rows = {row.layer: set(row.by_phase) for row in figures.layers(program.device)}
    parent = f"{model.name}/" if isinstance(model, tf_keras.Sequential) else ""
    names = {f"{parent}{layer.name}" for layer in model.layers if layer.trainable_weights}
    operations = {name for name in rows if name.startswith("tf.")}
    optimizer = type(model.optimizer).__name__
    assert set(rows) == names | operations | {"loss", "metrics", "(host)", optimizer}
    for name in names:
        assert rows[name] == {"forward", "backward", "update"}
    assert rows[optimizer] == {"update"}


def test_a_sequential_trains_evaluates_and_predicts_as_in_stock_tf_keras():
    strategy = strategy_of()
    how = {"batch_size": 8, "epochs": 2, "validation_data": (X[:16], Y[:16])}
    ours = trained(strategy, sequential, tf_keras.optimizers.SGD, steps=2, **how)
    stock = trained(None, sequential, tf_keras.optimizers.SGD, **how)
    check_equal(ours, stock)
    model, other = ours[0], stock[0]
    assert isinstance(model, tf_keras.Sequential)
    assert model.__class__ is tf_keras.Sequential
    figures = model.evaluate(X, Y, batch_size=8, verbose=0)
    np.testing.assert_allclose(figures, other.evaluate(X, Y, batch_size=8, verbose=0), rtol=1e-5)
    predicted = model.predict(X, batch_size=8, verbose=0)
    np.testing.assert_allclose(predicted, other.predict(X, verbose=0), rtol=1e-4, atol=1e-6)
    programs = {program.name: program for program in strategy.report(insights=False).programs}
    assert set(programs) == {f"{model.name}.{step}_step" for step in ("train", "test", "predict")}
    check_rows(programs[f"{model.name}.train_step"], model)


def test_an_execution_reads_its_steps_without_a_copy_and_counts_them_without_a_read(monkeypatch):
    with strategy_of().scope():
        model = sequential()
        model.compile("sgd", "mse", steps_per_execution=3)
    counter = tf.Variable(4, dtype=tf.int64)
    stock, results = counter.assign_add, []
    monkeypatch.setattr(
        counter, "assign_add", lambda *args, **how: results.append(stock(*args, **how))
    )
    reader = EpochReader(lambda _: {}, lambda: model.steps_per_execution, counter)
    with monkeypatch.context() as unread:
        unread.setattr(type(counter), "read_value", None)
        reader(object())
    assert (int(counter.numpy()), results) == (7, [None])


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["SGD", "legacy.Adam"])
def test_a_functional_model_trains_on_a_dataset_and_on_single_batches(optimizer):
    make = tf_keras.optimizers
    for part in optimizer.split("."):
        make = getattr(make, part)
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8, drop_remainder=True)
    strategy = strategy_of()
    ours = trained(strategy, functional, make, steps=2, x=data, epochs=3, shuffle=False)
    stock = trained(None, functional, make, x=data, epochs=3)
    check_equal(ours, stock)
    counts = []
    for model in (ours[0], stock[0]):
        model.steps_per_execution = 1
        counts.append(
            [model.train_on_batch(X[:8], Y[:8]), model.test_on_batch(X[:8], Y[:8], X[:8, 0])]
        )
    np.testing.assert_allclose(*counts, rtol=1e-5)
    check_equal_weights(ours[0], stock[0])
    check_rows(strategy.report(insights=False).programs[0], ours[0])


class Own(tf_keras.optimizers.SGD):
    """Takes no argument that keeps it from summing the gradients of replicas."""

    def apply_gradients(self, grads_and_vars):
        return super().apply_gradients(grads_and_vars)


@pytest.mark.slow
@pytest.mark.parametrize(
    "optimizer", [tf_keras.optimizers.SGD, Own, tf.compat.v1.train.GradientDescentOptimizer]
)
def test_gradients_are_accumulated_over_micro_batches_and_replicas(optimizer):
    """Sums over two replicas at half the learning rate are means at the whole."""

    def setup(model):
        model.set_gradient_accumulation_options(
            gradient_accumulation_steps_per_replica=2, gradient_accumulation_reduction_method="mean"
        )
        model.set_replication_options("MEAN")

    how = {"shuffle": False, "epochs": 2}
    ours, _ = trained(
        strategy_of(2),
        functional,
        lambda: optimizer(0.05),
        setup=setup,
        steps=6,
        batch_size=4,
        **how,
    )
    stock, _ = trained(
        None, functional, lambda: tf_keras.optimizers.SGD(0.05 * 2), batch_size=16, **how
    )
    # Each replica adds its regularization loss, too.
    kernels = [model.layers[1].kernel.numpy() for model in (ours, stock)]
    np.testing.assert_allclose(*kernels, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_gradients_of_embeddings_and_weights_of_classes():
    how = {"batch_size": 8, "x": TOKENS, "class_weight": {0: 1.0, 1: 2.0, 2: 0.5}}
    ours = trained(strategy_of(), embedded, tf_keras.optimizers.Adam, steps=6, **how)
    check_equal(ours, trained(None, embedded, tf_keras.optimizers.Adam, **how))


@pytest.mark.slow
def test_callbacks_are_called_once_a_step_beside_the_device():
    calls = []
    callback = tf_keras.callbacks.LambdaCallback(
        on_batch_end=lambda batch, logs: calls.append(batch)
    )
    trained(
        strategy_of(),
        sequential,
        lambda: tf_keras.optimizers.SGD(0.1),
        setup=lambda model: model.set_asynchronous_callbacks(True),
        steps=6,
        batch_size=8,
        callbacks=[callback],
    )
    assert calls == list(range(6))


@pytest.mark.slow
def test_files_and_pickles_hold_stock_models(tmp_path):
    strategy = strategy_of()
    model, _ = trained(strategy, functional, tf_keras.optimizers.SGD, batch_size=8)
    for name in ("model.keras", "saved_model"):
        model.save(tmp_path / name)
        loaded = tf_keras.models.load_model(tmp_path / name)
        assert type(loaded) is model.__class__
        check_equal_weights(loaded, model)
    pickled = pickle.loads(pickle.dumps(model))
    assert type(pickled) is model.__class__
    check_equal_weights(pickled, model)
    with strategy.scope():
        assert type(tf_keras.models.clone_model(model)) is type(model)


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [True, False])
def test_an_estimate_has_the_products_of_the_same_model_of_keras_3(compiled):
    def made(of_keras):
        layers = of_keras.layers
        outer = [layers.Dense(4, "relu"), layers.Dense(3), layers.Softmax()]
        model = of_keras.Sequential([of_keras.Input((6,)), *outer])
        if compiled:
            model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        return model

    strategy_of()
    reports = [
        ipu_tf.estimate(lambda of=of: made(of), batch_size=4, insights=False)
        for of in (tf_keras, keras)
    ]
    (notes, other_notes), (program, other) = zip(
        *((report.notes, report.programs[0]) for report in reports), strict=True
    )
    assert [(op.op_type, op.shape) for op in program.tile_ops] == [
        (op.op_type, op.shape) for op in other.tile_ops
    ]
    assumed = r"model '.*' is not compiled: SGD and sparse_categorical_crossentropy are assumed"
    for of_model in (notes, other_notes):
        assert len(of_model) == (not compiled)
        assert all(re.match(assumed, note) for note in of_model)


@pytest.mark.slow
def test_an_estimate_leaves_the_optimizer_and_untouched_weights():
    strategy = strategy_of()
    ours, _ = trained(strategy, functional, tf_keras.optimizers.Adam, batch_size=8)
    optimizer = ours.optimizer
    before = [variable.numpy() for variable in optimizer.variables]
    report = ipu_tf.estimate(ours, batch_size=4)
    assert report.programs[0].name == f"{ours.name}.train_step"
    assert ours.optimizer is optimizer
    for variable, value in zip(optimizer.variables, before, strict=True):
        np.testing.assert_array_equal(variable, value)
    large = lambda: tf_keras.Sequential([tf_keras.layers.Dense(200, input_shape=(200,))])  # noqa: E731
    (prediction,) = ipu_tf.estimate(large, batch_size=4, training=False).programs
    assert prediction.name.endswith("predict_step")


def mixed():
    half = tf_keras.mixed_precision.Policy("mixed_float16")
    inputs = tf_keras.Input((6,))
    hidden = tf_keras.layers.Dense(8, activation="relu", dtype=half)(inputs)
    return tf_keras.Model(inputs, tf_keras.layers.Dense(3)(hidden))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "micro_batches"), [("dynamic", 1), ("dynamic", 2), ("overflowing", 2), ("legacy", 1)]
)
def test_losses_are_scaled_as_in_stock_tf_keras(kind, micro_batches):
    def optimizer():
        scaling = tf_keras.mixed_precision.LossScaleOptimizer
        if kind == "legacy":
            return scaling(tf_keras.optimizers.legacy.SGD(0.1), dynamic=False, initial_scale=64.0)
        start = 2.0 ** (40 if kind == "overflowing" else 8)
        return scaling(tf_keras.optimizers.SGD(0.1), initial_scale=start, dynamic_growth_steps=3)

    def setup(model):
        model.set_gradient_accumulation_options(
            micro_batches, gradient_accumulation_reduction_method="mean"
        )

    how = {"shuffle": False, "epochs": 2}
    strategy = strategy_of()
    ours = trained(
        strategy, mixed, optimizer, setup=setup, steps=6, batch_size=8 // micro_batches, **how
    )
    stock = trained(None, mixed, optimizer, batch_size=8, **how)
    np.testing.assert_allclose(ours[1]["loss"], stock[1]["loss"], rtol=1e-3)
    for weight, other in zip(ours[0].get_weights(), stock[0].get_weights(), strict=True):
        np.testing.assert_allclose(weight, other, rtol=2e-3, atol=2e-4)
    of_both = [model.optimizer for model in (ours[0], stock[0])]
    assert len({float(one.loss_scale) for one in of_both}) == 1
    assert [int(one.iterations) for one in of_both] == [12, 12]
    program = strategy.report(insights=False).programs[0]
    rows = {row.layer for row in figures.layers(program.device)}
    names = {layer.name for layer in ours[0].layers[1:]}
    assert rows - {""} == names | {"SGD", "loss", "metrics", "(host)"}


@pytest.mark.slow
def test_models_of_both_keras_train_in_turns():
    def losses(scope):
        with scope:
            models = []
            for of_keras in (keras, tf_keras):
                of_keras.utils.set_random_seed(3)
                layers = [of_keras.layers.Dense(8, "tanh"), of_keras.layers.Dense(1)]
                model = of_keras.Sequential([of_keras.Input((6,)), *layers])
                model.compile(of_keras.optimizers.SGD(0.1), "mse")
                models.append(model)
            how = {"batch_size": 8, "shuffle": False, "verbose": 0}
            return [model.fit(X, X[:, :1], **how).history["loss"] for model in models * 2]

    strategy = strategy_of()
    ours = losses(strategy.scope())
    np.testing.assert_allclose(ours, losses(contextlib.nullcontext()), rtol=1e-5)
    assert len(strategy.report(insights=False).programs) == 2


@pytest.mark.slow
def test_recurrent_layers_compute_by_their_cells():
    """Not in a function beside kernels of other devices, where no loop is joined."""

    def make():
        lstm = tf_keras.layers.LSTM(4, name="lstm")
        model = tf_keras.Sequential([tf_keras.Input((5, 6)), lstm], name="net")
        model.compile("sgd", "mse")
        return model

    strategy_of()
    (program,) = ipu_tf.estimate(make, batch_size=2, insights=False).programs
    assert "net/lstm/lstm_cell" in {row.layer for row in figures.layers(program.device)}


def test_the_first_step_says_that_a_model_is_not_converted(caplog, monkeypatch):
    monkeypatch.setattr(tf_keras_scope, "may_use_tf_keras", lambda: False)  # Loaded in the scope.
    strategy = strategy_of()
    with strategy.scope(), caplog.at_level(logging.WARNING, "ipu_tf"):
        model = tf_keras.Sequential([tf_keras.layers.Dense(1)])
        predict = tf.function(model.predict_step)
        for rows in (2, 3):
            strategy.run(predict, args=(tf.constant(X[:rows]),))
    start = "A model of tf_keras is not converted for the IPU, because it was made outside of"
    messages = [record.getMessage() for record in caplog.records]
    assert len([message for message in messages if message.startswith(start)]) == 1


def test_a_functional_model_may_be_made_inside_of_a_graph():
    with strategy_of().scope(), tf.Graph().as_default():
        inputs = tf_keras.Input((6,))
        model = tf_keras.Model(inputs, tf_keras.layers.Dense(3)(inputs))
    assert model.pipeline_stages() == {}
    assert model.output_shape == (None, 3)


class Halves(tf_keras.Model):
    """A model for a functional one around it."""

    def call(self, inputs):
        return inputs / 2


def test_a_model_inside_of_a_graph_may_have_models_in_it():
    with strategy_of().scope(), tf.Graph().as_default():
        inputs = tf_keras.Input((6,))
        model = tf_keras.Model(inputs, tf_keras.layers.Dense(4)(Halves()(inputs)))
    assert model.output_shape == (None, 4)


def test_the_loop_replicates_the_steps_of_models():
    """Not `strategy.run`, whose replicas have weights of their own."""
    for of_a_keras in (tf_keras, keras):
        model = of_a_keras.Sequential()
        assert is_keras_step(model.train_step)
        assert not is_keras_step(model.compile)
    assert not is_keras_step(tf.Module().with_name_scope)
