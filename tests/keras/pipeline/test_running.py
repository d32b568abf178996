"""Training, evaluation and prediction of pipelined models, and what they refuse."""

import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import config
from ipu_tf.keras.deployment.model_pipeline import replicas_on_device
from ipu_tf.ops.pipelining_ops import PipelineSchedule
from tests.grids import mostly_slow
from tests.keras.equivalence import BATCH, batches, samples, strategy_of
from tests.keras.pipelined_models import KINDS, functional, schedule_for
from tests.keras.small_models import CLASSES, FEATURES, compile_model

G = 8


@pytest.fixture
def strategy():
    yield strategy_of(2)
    config.reset_ipu_configuration()


@pytest.fixture(params=mostly_slow(list(KINDS), fast=["functional"]))
def model(strategy, request):
    keras.utils.set_random_seed(7)
    with strategy.scope():
        model = compile_model(KINDS[request.param](2), steps_per_execution=2 * G)
    model.set_pipelining_options(G)
    return model


def data(steps=2 * G):
    return batches(samples(BATCH * steps), BATCH)


def fit(model, steps=2 * G, **kwargs):
    return model.fit(data(steps), shuffle=False, verbose=0, **kwargs)


def test_evaluate_and_predict_are_those_of_a_plain_model(strategy, model):
    if not model.built:
        fit(model)
    kind = next(kind for kind, build in KINDS.items() if isinstance(model, type(build())))
    plain = compile_model(KINDS[kind]())
    plain(np.zeros((BATCH, FEATURES), "float32"))
    plain.set_weights(model.get_weights())
    x, _ = samples(BATCH * 2 * G)
    np.testing.assert_allclose(
        model.evaluate(data(), verbose=0), plain.evaluate(data(), verbose=0), rtol=1e-5
    )
    predictions = model.predict(x, batch_size=BATCH, verbose=0)
    np.testing.assert_allclose(predictions, plain(x), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_programs_name_the_layers_as_the_stages_do(strategy, model):
    fit(model)
    programs = strategy.report().programs
    layers = {op.layer for program in programs for op in program.tile_ops}
    assert layers == set(model.pipeline_stages())


@pytest.mark.slow
def test_a_replica_takes_an_ipu_for_each_stage(caplog):
    strategy = strategy_of(8)
    with strategy.scope():
        model = compile_model(functional(4), steps_per_execution=G)
    model.set_pipelining_options(G)
    with caplog.at_level(logging.INFO, "ipu_tf"):
        fit(model, 2 * G)
    config.reset_ipu_configuration()
    assert f"batches of {BATCH}, {G} micro-batches, 2 replicas" in caplog.text


def test_the_device_mapping_says_how_many_ipus_a_replica_takes(strategy):
    with strategy.scope():
        model = compile_model(functional(2))
    model.set_pipelining_options(4, device_mapping=[0, 0])
    assert replicas_on_device(model) == 2
    model.set_pipelining_options(4, device_mapping=[1, 0])
    assert replicas_on_device(model) == 1


def test_too_few_ipus(strategy):
    with strategy.scope():
        model = compile_model(functional(4), steps_per_execution=G)
    model.set_pipelining_options(G)
    expected = "Current device has 2 IPUs attached, .* requires a multiple of 4 IPUs"
    with pytest.raises(ValueError, match=expected):
        fit(model)


def test_training_needs_the_number_of_micro_batches(model):
    model.set_pipelining_options()
    model.set_gradient_accumulation_options(G)  # Which is not for pipelines.
    expected = (
        "`gradient_accumulation_steps_per_replica` has not been set through "
        r"`set_pipelining_options\(\)`.*set a multiple of 4"
    )
    with pytest.raises(ValueError, match=expected):
        fit(model)


def test_micro_batches_that_do_not_fill_the_pipeline_come_before_executions(model):
    compile_model(model, steps_per_execution=5)
    model.set_pipelining_options(2)
    with pytest.raises(tf.errors.FailedPreconditionError, match="must be a multiple of 4"):
        fit(model, 12)


def test_executions_are_whole_updates(strategy, model):
    compile_model(model, steps_per_execution=G + 4)
    expected = (
        r"The pipelined model has been configured .* \(set to 12\) is not divisible by "
        r"`gradient_accumulation_steps_per_replica` \(8\)"
    )
    with pytest.raises(RuntimeError, match=expected):
        fit(model, 12)


@pytest.mark.fast_cells(3)
@pytest.mark.parametrize(
    ("schedule", "stages", "micro_batches", "depth"),
    [
        (PipelineSchedule.Grouped, 2, 1, 4),
        (PipelineSchedule.Grouped, 2, 6, 4),
        (PipelineSchedule.Grouped, 4, 1, 8),
        (PipelineSchedule.Grouped, 4, 4, 8),
        (PipelineSchedule.Interleaved, 2, 1, 2),
        (PipelineSchedule.Interleaved, 4, 1, 4),
        (PipelineSchedule.Interleaved, 4, 6, 4),
    ],
)
def test_micro_batches_fill_the_pipeline(schedule, stages, micro_batches, depth):
    strategy = strategy_of(stages)
    with strategy.scope():
        model = compile_model(functional(stages), steps_per_execution=micro_batches)
    model.set_pipelining_options(micro_batches, pipeline_schedule=schedule)
    expected = (
        f"number of iterations of the pipeline must be a multiple of {depth} .*at least {depth}.*"
        f"the {schedule.name} schedule trains the {stages} stages.*"
        f"Received: gradient_accumulation_steps_per_replica={micro_batches}"
    )
    with pytest.raises(tf.errors.FailedPreconditionError, match=expected):
        fit(model, micro_batches)
    config.reset_ipu_configuration()


def test_interleaved_stages_do_not_share_an_ipu_in_training(model):
    interleaved = PipelineSchedule.Interleaved
    model.set_pipelining_options(G, device_mapping=[0, 0], pipeline_schedule=interleaved)
    with pytest.raises(NotImplementedError, match=r"trains one stage on an IPU.*\[0, 0\]"):
        fit(model)


@pytest.mark.parametrize("method", ["evaluate", "predict", "validation"])
def test_executions_without_training_fill_the_pipeline(model, method):
    three = data(3)
    run = {
        "evaluate": lambda: model.evaluate(three, verbose=0),
        "predict": lambda: model.predict(three, verbose=0),
        "validation": lambda: fit(model, validation_data=three),
    }[method]
    expected = "must be a multiple of 2 .*runs the 2 stages.*Received: steps_per_execution=3"
    with pytest.raises(tf.errors.FailedPreconditionError, match=expected):
        run()


@pytest.mark.parametrize("method", ["test_on_batch", "predict_on_batch"])
@pytest.mark.slow
def test_single_batches_do_not_fill_the_pipeline(model, method):
    x, y = samples(BATCH)
    fit(model)
    with pytest.raises(tf.errors.FailedPreconditionError, match="must be a multiple of 2"):
        getattr(model, method)(x, *([y] if method == "test_on_batch" else []))


@pytest.mark.slow
def test_single_batches_go_through_a_sequential_schedule(model):
    x, y = samples(BATCH)
    fit(model)
    model.set_pipelining_options(1, pipeline_schedule=PipelineSchedule.Sequential)
    assert model.predict_on_batch(x).shape == (BATCH, CLASSES)
    updates = int(model.optimizer.iterations)
    model.train_on_batch(x, y)
    assert int(model.optimizer.iterations) == updates + 1


@pytest.mark.slow
def test_a_single_batch_is_that_of_an_update(model):
    fit(model)
    updates = int(model.optimizer.iterations)
    model.train_on_batch(*samples(2 * G))
    assert int(model.optimizer.iterations) == updates + 1
    with pytest.raises(ValueError, match="`train_on_batch` of model .* takes 8 micro-batches"):
        model.train_on_batch(*samples(G + 1))


def test_an_optimizer_that_computes_gradients(model):
    class Own(keras.optimizers.SGD):
        def minimize(self, *args, **kwargs):
            raise NotImplementedError

    compile_model(model, optimizer=Own(), steps_per_execution=2 * G)
    model.set_pipelining_options(1, pipeline_schedule=PipelineSchedule.Sequential)
    with pytest.raises(ValueError, match="must not override OptimizerV2.minimize"):
        fit(model)


def pipelined(strategy, **options):
    keras.utils.set_random_seed(7)
    with strategy.scope():
        model = compile_model(functional(2), steps_per_execution=2 * G)
    model.set_pipelining_options(G, **options)
    return model


@pytest.mark.parametrize("dtype", mostly_slow([None, "float16"], fast=["float16"]))
@pytest.mark.slow
def test_accumulated_metrics_are_those_of_all_micro_batches(strategy, dtype):
    accumulated = {"accumulate_outfeed": True, "accumulate_outfeed_dtype": dtype}
    logs, expected = [], []
    for seen, options in ((logs, accumulated), (expected, {})):
        callback = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs, seen=seen: seen.append(dict(logs))
        )
        model = pipelined(strategy, **options)
        seen.append(fit(model, steps=4 * G, epochs=2, callbacks=[callback]).history)
    assert logs == expected
    assert len(logs) == 2 * 2 + 1


@pytest.mark.slow
def test_the_accumulated_loss_is_that_of_the_epoch(strategy):
    model = pipelined(strategy, accumulate_outfeed=True)
    model.optimizer.learning_rate = 0.0
    loss, accuracy = model.evaluate(data(), verbose=0)
    history = fit(model).history
    assert history["loss"] == [pytest.approx(loss, rel=1e-5)]
    assert history["accuracy"] == [pytest.approx(accuracy)]


@pytest.mark.slow
def test_accumulated_metrics_leave_no_steps_to_call_back(strategy):
    seen = []
    callback = keras.callbacks.LambdaCallback(on_train_batch_end=lambda b, logs: seen.append(b))
    model = pipelined(strategy, accumulate_outfeed=True)
    model.set_asynchronous_callbacks(True)
    fit(model, callbacks=[callback])
    assert seen == [2 * G - 1]


@pytest.mark.slow
def test_accumulated_metrics_leave_predictions_to_call_back(strategy):
    seen = []
    callback = keras.callbacks.LambdaCallback()
    callback.on_predict_batch_end = lambda batch, logs: seen.append(batch)
    model = pipelined(strategy, accumulate_outfeed=True)
    model.set_asynchronous_callbacks(True)
    model.predict(data().map(lambda x, y: x), verbose=0, callbacks=[callback])
    assert len(seen) > 1
    assert seen == list(range(len(seen)))


@pytest.mark.slow
def test_batch_norm_is_warned_about(strategy, caplog):
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((FEATURES,)),
                keras.layers.BatchNormalization(momentum=0.9, name="norm"),
                keras.layers.Dense(CLASSES),
            ]
        )
        compile_model(model, steps_per_execution=G)
        model.set_pipeline_stage_assignment([0, 1])
        model.set_pipelining_options(G)
    with caplog.at_level(logging.WARNING, "ipu_tf"):
        fit(model)
    assert "Layer norm of the pipelined model" in caplog.text
    assert "momentum=0.9" in caplog.text


@pytest.mark.slow
def test_stages_change_between_fits(strategy):
    keras.utils.set_random_seed(7)
    with strategy.scope():
        model = compile_model(KINDS["sequential"](), steps_per_execution=2 * G)
        fit(model)
        model.set_pipeline_stage_assignment([0, 1, 1, 1])
        model.set_pipelining_options(G)
        fit(model)
        model.reset_pipeline_stage_assignment()
        fit(model)
    # Two replicas, one replica in two stages, two replicas again.
    assert int(model.optimizer.iterations) == G + 2 + G


def test_the_first_schedule_that_runs():
    assert schedule_for(8, 4) is PipelineSchedule.Grouped
    assert schedule_for(4, 4) is PipelineSchedule.Interleaved
    assert schedule_for(1, 2) is PipelineSchedule.Sequential
