"""Models with steps of their own: they run in the on-device loop and equal stock Keras'."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import ipu_tf.keras
from ipu_tf.keras import PipelineStage
from ipu_tf.keras.extensions import IPUExtensions
from ipu_tf.profile.figures import program_figures as figures
from tests.grids import covering, mostly_slow
from tests.keras.equivalence import batches, check_weights, samples, strategy_of
from tests.keras.models_with_steps import (
    AdversarialPair,
    Distiller,
    VariationalAutoencoder,
    compile_kind,
    compiled,
)
from tests.keras.small_models import CLASSES, FEATURES, Net, compile_model, sequential

STEPS = {"fit": "train_step", "evaluate": "test_step", "predict": "predict_step"}
KINDS = (VariationalAutoencoder, AdversarialPair, Distiller)


def data_of(kind):
    """Returns what a kind of model trains on: features, for the distiller with labels."""
    features, labels = samples(48)
    return (features, labels) if kind is Distiller else features


def check_logs(ours, stock):
    assert list(ours) == list(stock)
    for name, values in stock.items():
        np.testing.assert_allclose(ours[name], values, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    *covering(1, steps_per_execution=[1, 3], kind={kind.__name__: kind for kind in KINDS})
)
@pytest.mark.fast_cells(1)
def test_training_equals_stock_keras(strategy, kind, steps_per_execution):
    dataset = batches(data_of(kind), 8)
    stock = compiled(kind)
    expected = stock.fit(dataset, epochs=2, verbose=0).history
    with strategy.scope():
        ours = compiled(kind, steps_per_execution=steps_per_execution)
        history = ours.fit(dataset, epochs=2, verbose=0).history
    assert isinstance(ours, IPUExtensions)
    check_logs(history, expected)
    check_weights(ours, stock)
    (program,) = strategy.report().programs
    assert program.name == f"{ours.name}.train_step"
    assert program.steps_per_execution == steps_per_execution


@pytest.mark.parametrize("ipus", [1, 2])
@pytest.mark.slow
def test_evaluation_and_prediction_equal_stock_keras(ipus):
    dataset = batches(data_of(VariationalAutoencoder), 6)
    stock = compiled(VariationalAutoencoder)
    expected = stock.predict(dataset, verbose=0)
    strategy = strategy_of(ipus)
    with strategy.scope():
        ours = compiled(VariationalAutoencoder, steps_per_execution=2)
        predictions = ours.predict(dataset, verbose=0)
    check_logs(predictions, expected)
    if ipus == 1:  # Each replica draws samples, and averages, for itself.
        expected = stock.evaluate(dataset, verbose=0, return_dict=True)
        check_logs(ours.evaluate(dataset, verbose=0, return_dict=True), expected)
    names = {program.name.rpartition(".")[2] for program in strategy.report().programs}
    assert names == {"predict_step", "test_step"} if ipus == 1 else {"predict_step"}


@pytest.mark.slow
def test_the_metrics_of_an_own_test_step_are_each_replicas():
    class Judged(keras.Sequential):
        def test_step(self, data):
            x, y = data
            return self.compute_metrics(x, y, self(x, training=False), None)

    data = samples(24)
    with strategy_of(2).scope():
        keras.utils.set_random_seed(7)
        ours = compile_model(Judged([keras.layers.Dense(CLASSES)]), steps_per_execution=3)
        ours.set_replication_options("LIST")
        logs = ours.evaluate(batches(data, 4), verbose=0, return_dict=True)
    keras.utils.set_random_seed(7)
    stock = compile_model(Judged([keras.layers.Dense(CLASSES)]))
    for replica, accuracy in enumerate(np.asarray(logs["accuracy"])):
        part = batches(data, 4).shard(2, replica)
        expected = stock.evaluate(part, verbose=0, return_dict=True)
        assert accuracy == pytest.approx(expected["accuracy"])


@pytest.mark.slow
def test_validation_runs_the_own_test_step(strategy):
    data = data_of(VariationalAutoencoder)
    stock = compiled(VariationalAutoencoder)
    arguments = {"batch_size": 8, "validation_data": (data[:16], None), "verbose": 0}
    expected = stock.fit(data, **arguments).history
    with strategy.scope():
        ours = compiled(VariationalAutoencoder)
        check_logs(ours.fit(data, **arguments).history, expected)
    assert set(expected) == {"loss", "kl_loss", "val_loss", "val_kl_loss"}


@pytest.mark.slow
def test_single_batches(strategy):
    batch = data_of(AdversarialPair)[:8]
    stock = compiled(AdversarialPair)
    expected = [stock.train_on_batch(batch, return_dict=True) for _ in range(2)][-1]
    with strategy.scope():
        ours = compiled(AdversarialPair)
        logs = [ours.train_on_batch(batch, return_dict=True) for _ in range(2)][-1]
    check_logs(logs, expected)


def extended(base):
    class Extended(base):
        def train_step(self, data):
            logs = super().train_step(data)
            return {**logs, "rows": 3, "noise": tf.reduce_mean(tf.random.normal((2, 4)))}

    return Extended


@pytest.mark.slow
@pytest.mark.parametrize(
    "base", mostly_slow({"net": Net, "sequential": keras.Sequential}, fast=["net"])
)
def test_a_step_may_add_to_that_of_keras(strategy, base):
    def make():
        keras.utils.set_random_seed(7)
        cls = extended(base)
        return compile_model(cls() if base is Net else cls([keras.layers.Dense(CLASSES)]))

    dataset = batches(samples(24), 8)
    stock = make()
    expected = stock.fit(dataset, verbose=0).history
    with strategy.scope():
        ours = make()
        history = ours.fit(dataset, verbose=0).history
    check_logs(history, expected)
    check_weights(ours, stock)
    assert history["rows"] == [3]


@pytest.mark.fast_cells(2)
@pytest.mark.parametrize("method", STEPS)
def test_a_step_may_be_set_on_the_model(strategy, method):
    def own(data):
        x, _ = data
        mean = tf.reduce_mean(model(x))
        return mean if method == "predict" else {"mean": mean}

    with strategy.scope():
        model = compile_model(sequential(), metrics=None)
        setattr(model, STEPS[method], own)
        getattr(model, method)(batches(samples(8), 4), verbose=0)
    (program,) = strategy.report().programs
    assert program.name == f"{model.name}.{STEPS[method]}"


@pytest.mark.parametrize(
    "kind",
    mostly_slow({"pair": AdversarialPair, "distiller": Distiller}, fast=["distiller"]),
)
@pytest.mark.slow
def test_optimizers_may_be_made_outside_of_the_scope(strategy, kind):
    dataset = batches(data_of(kind), 24)
    stock = compiled(kind)
    stock.fit(dataset, verbose=0)
    with strategy.scope():
        keras.utils.set_random_seed(7)
        ours = kind()
    compile_kind(ours)
    ours.fit(dataset, verbose=0)
    check_weights(ours, stock)


def accumulating(model):
    model.set_gradient_accumulation_options(
        gradient_accumulation_steps_per_replica=2, gradient_accumulation_reduction_method="mean"
    )


def pipelined(model):
    model.set_pipeline_stage_assignment([0, 1])
    model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)


OBSTACLES = [
    ("fit", 2, pipelined, "is a pipeline"),
    ("evaluate", 2, pipelined, "is a pipeline"),
    ("predict", 2, pipelined, "is a pipeline"),
]


@pytest.mark.parametrize(("method", "ipus", "configure", "obstacle"), OBSTACLES)
def test_steps_that_would_be_taken_apart_are_refused(method, ipus, configure, obstacle):
    def own(self, data):
        raise AssertionError

    with strategy_of(ipus).scope():
        layers = [keras.Input((FEATURES,)), keras.layers.Dense(4), keras.layers.Dense(CLASSES)]
        model = type("Own", (keras.Sequential,), {STEPS[method]: own})(layers)
        compile_model(model, steps_per_execution=8)
        configure(model)
    message = (
        f"The function `{STEPS[method]}` for the model {model.name} has been overridden. .*"
        f"Here it has to: the model {obstacle}. .*`enable_keras_extensions=False`"
    )
    with pytest.raises(RuntimeError, match=message):
        getattr(model, method)(batches(samples(64), 4))


@pytest.mark.parametrize("within", ["__init__", "call"])
def test_stages_of_a_model_that_only_its_step_builds_are_refused(within):
    def stage_in(place, stage):
        return PipelineStage(stage) if place == within else tf.name_scope("none")

    class Staged(keras.Model):
        def __init__(self):
            super().__init__()
            with stage_in("__init__", 0):
                self.hidden = keras.layers.Dense(4)
            with stage_in("__init__", 1):
                self.dense = keras.layers.Dense(CLASSES)

        def call(self, inputs):
            with stage_in("call", 0):
                hidden = self.hidden(inputs)
            with stage_in("call", 1):
                return self.dense(hidden)

        def train_step(self, data):
            return {"mean": tf.reduce_mean(self(data[0]))}

    with strategy_of(2).scope():
        model = compile_model(Staged())
        with pytest.raises(RuntimeError, match="`train_step` .* overridden.*"):
            model.fit(batches(samples(8), 4))


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ((1.0, 2.0), r"`train_step` of model 'own' must return a dict .*Received: \(1.0, 2.0\)"),
        (None, "must return a dict from names to values.*Received: None"),
        ({"loss": {"part": None}}, r"tensors or numbers. Received: None .*\['loss'\]\['part'\]"),
    ],
)
def test_results_are_a_dict_of_tensors(strategy, results, message):
    class Own(keras.Model):
        def train_step(self, data):
            return results

    with strategy.scope():
        model = compile_model(Own(name="own"))
        with pytest.raises(TypeError, match=message):
            model.fit(batches(samples(8), 4), verbose=0)


def test_a_step_may_change_the_dictionary_of_its_batch(strategy):
    class Labelling(keras.Model):
        def train_step(self, data):
            data["total"] = tf.reduce_sum(data.pop("x"))
            return {"total": data["total"]}

    with strategy.scope():
        model = Labelling()
        model.compile()
        logs = model.fit(tf.data.Dataset.from_tensors({"x": [1.0, 2.0]}), verbose=0)
    assert logs.history == {"total": [3.0]}


def test_without_an_own_step_a_model_needs_a_call(strategy):
    with strategy.scope():
        model = compiled(AdversarialPair)
        with pytest.raises(NotImplementedError, match="does not implement `call`"):
            model.predict(batches(data_of(AdversarialPair), 8))


@pytest.mark.slow
def test_estimates_are_of_the_own_step(strategy):
    dataset = batches(data_of(VariationalAutoencoder), 8)
    with strategy.scope():
        compiled(VariationalAutoencoder).fit(dataset, steps_per_epoch=1, verbose=0)
    (expected,) = strategy.report().programs
    inputs = tf.TensorSpec((8, FEATURES))
    report = ipu_tf.estimate(lambda: compiled(VariationalAutoencoder), batch_size=8, inputs=inputs)
    (program,) = report.programs
    assert [op.shape for op in program.tile_ops] == [op.shape for op in expected.tile_ops]
    cycles, of_fit = (
        sum(layer.cycles for layer in figures.layers(one.device)) for one in (program, expected)
    )
    assert cycles == of_fit


@pytest.mark.slow
def test_estimates_with_targets_are_of_the_own_step(strategy):
    specs = {"inputs": tf.TensorSpec((8, FEATURES)), "targets": tf.TensorSpec((8,), tf.int32)}
    report = ipu_tf.estimate(lambda: compiled(Distiller), batch_size=8, **specs)
    # The teacher's product, the student's two, and their gradients but that of the data.
    assert len(report.tile_ops) == 1 + 2 + 3


def test_what_fit_refuses_is_not_estimated(strategy):
    def make():
        layers = [keras.Input((FEATURES,)), keras.layers.Dense(4), keras.layers.Dense(CLASSES)]
        model = compile_model(extended(keras.Sequential)(layers))
        pipelined(model)
        return model

    with pytest.raises(RuntimeError, match="the model is a pipeline"):
        ipu_tf.estimate(make, batch_size=8)


def test_models_with_own_train_steps_are_not_pipelined():
    with strategy_of(2).scope():
        layers = [keras.Input((FEATURES,)), keras.layers.Dense(4), keras.layers.Dense(CLASSES)]
        model = compile_model(extended(keras.Sequential)(layers))
        message = "`train_step` .* overridden. The stages of a pipeline compute gradients apart"
        with pytest.raises(RuntimeError, match=message):
            ipu_tf.keras.auto_pipeline(model, 2, batch_size=4)
