"""The cost of a weight update of several batches: one program, in reports and in estimates."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import ipu_tf
from ipu_tf import IPUConfig, IPUOutOfMemoryError, IPUStrategy, config
from ipu_tf.profile.figures import program_figures as figures
from ipu_tf.runtime.programs import device_programs
from ipu_tf.tile_program.device_program import on_one_ipu
from tests.grids import covering
from tests.keras.equivalence import BATCH, batches, samples, strategy_of
from tests.keras.pipelined_models import KINDS
from tests.keras.small_models import CLASSES, FEATURES, compile_model, sequential


@pytest.fixture(autouse=True)
def _no_configuration_is_left():
    yield
    config.reset_ipu_configuration()


def fitted(replicas=1, micro_batches=1, *, build=sequential, updates=1, **options):
    """Returns a model and the report of its fit."""
    strategy = strategy_of(replicas)
    keras.utils.set_random_seed(7)
    with strategy.scope():
        model = compile_model(
            build(),
            optimizer=keras.optimizers.SGD(0.05, momentum=0.9),
            steps_per_execution=micro_batches * updates,
        )
    model.set_gradient_accumulation_options(micro_batches, **options)
    data = batches(samples(BATCH * micro_batches * replicas * updates), BATCH)
    model.fit(data, shuffle=False, verbose=0)
    return model, strategy.report()


@pytest.fixture(scope="module")
def of_two_replicas():
    """A model and the report of a fit of three updates, which tests only read."""
    return fitted(2, 4, updates=3)


@pytest.fixture(scope="module")
def of_one_replica():
    """A model and the report of its fit, which tests only read."""
    return fitted(1, 4)


def step_of(report):
    """Returns the only program of a report, which is one of several batches."""
    (program,) = report.programs
    return program.device


def host_cycles(program):
    """Returns the cycles of transfers between host and tiles in a micro-batch."""
    return sum(
        step.repeats * superstep.host_cycles
        for step in program.steps
        for superstep in step.supersteps
    )


def bytes_of(step, category):
    return int(step.ipus[0].memory.always_live[category].sum())


ACCUMULATION = {
    "half": (4, "mean", tf.float16),
    "sum": (4, "sum", None),
    "running mean": (2, "running_mean", None),
    "none": (1, "sum", None),
}


def check_estimate(model, report):
    """Checks that an estimate of a step of several batches has the figures of a report."""
    one, other = step_of(report), step_of(ipu_tf.estimate(model, batch_size=BATCH))
    assert one.cycles == other.cycles
    assert one.samples_per_update == other.samples_per_update
    for mine, others in zip(one.ipus, other.ipus, strict=True):
        np.testing.assert_array_equal(mine.memory.peak_tile_bytes, others.memory.peak_tile_bytes)
        np.testing.assert_array_equal(mine.memory.live_bytes, others.memory.live_bytes)


def test_an_estimate_equals_the_report_of_a_fit(of_two_replicas):
    check_estimate(*of_two_replicas)


@pytest.mark.slow
@pytest.mark.parametrize(*covering(1, replicas=[2, 1], accumulation=ACCUMULATION))
def test_estimates_equal_the_reports_of_fits(replicas, accumulation):
    micro_batches, method, dtype = accumulation
    model, report = fitted(
        replicas, micro_batches, gradient_accumulation_reduction_method=method, dtype=dtype
    )
    if replicas == micro_batches == 1:
        estimate = ipu_tf.estimate(model, batch_size=BATCH)
        (one,), (other,) = report.programs, estimate.programs
        assert one.device.cycles == other.device.cycles
    else:
        check_estimate(model, report)


@pytest.mark.parametrize(*covering(1, replicas=[1, 2], kind=list(KINDS)))
@pytest.mark.fast_cells(1)
@pytest.mark.slow
def test_an_estimate_of_a_pipeline_equals_the_report_of_its_fit(kind, replicas):
    strategy = strategy_of(2 * replicas)
    with strategy.scope():
        model = compile_model(KINDS[kind](2), steps_per_execution=4)
    model.set_pipelining_options(4, gradient_accumulation_reduction_method="mean")
    model.fit(batches(samples(BATCH * 4 * replicas), BATCH), verbose=0)
    inputs = tf.TensorSpec((BATCH, FEATURES))
    one, other = map(
        step_of, (strategy.report(), ipu_tf.estimate(model, batch_size=BATCH, inputs=inputs))
    )
    assert len(one.stages) == 2
    assert one.replicas == replicas
    assert one.cycles == other.cycles
    for mine, others in zip(one.ipus, other.ipus, strict=True):
        np.testing.assert_array_equal(mine.memory.peak_tile_bytes, others.memory.peak_tile_bytes)
    assert sum(bytes_of(step, "accumulators") for step in (one, other)) > 0


def test_a_fit_is_one_program_named_after_the_step(of_two_replicas):
    model, report = of_two_replicas
    (program,) = report.programs
    assert program.name == f"{model.name}.train_step"
    assert report.complete
    assert len(program.tile_ops) == 5


def test_the_cycles_are_those_of_all_micro_batches_the_all_reduce_and_the_update(of_two_replicas):
    step = step_of(of_two_replicas[1])
    (stage,) = step.stages
    assert step.timeline.cycles == 4 * stage.micro_batch_cycles
    assert step.all_reduce_cycles > 0
    assert step.update_cycles > 0
    assert step.cycles == step.timeline.cycles + step.all_reduce_cycles + step.update_cycles
    assert step.samples_per_update == 8 * BATCH
    assert step.timeline.bubble_share == 0


@pytest.mark.slow
def test_one_replica_has_nothing_to_reduce(of_one_replica):
    alone, four = step_of(of_one_replica[1]), step_of(fitted(4, 4)[1])
    assert alone.all_reduce_cycles == 0
    assert four.all_reduce_cycles > 0
    # Replicas share the connection of the host to the gateway, but not their own.
    assert host_cycles(alone) == host_cycles(four) > 0
    assert four.timeline.cycles == alone.timeline.cycles
    np.testing.assert_array_equal(
        alone.ipus[0].memory.peak_tile_bytes, four.ipus[0].memory.peak_tile_bytes
    )


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(("dtype", "share"), [(None, 1), (tf.float16, 2)])
def test_memory_has_the_accumulators_in_their_type(of_two_replicas, dtype, share):
    model, report = of_two_replicas if dtype is None else fitted(2, 4, dtype=dtype)
    step = step_of(report)
    size = sum(int(np.prod(weight.shape)) * 4 for weight in model.trainable_weights)
    assert bytes_of(step, "accumulators") == size // share
    assert bytes_of(step, "weights") == size
    (stage,) = step.stages
    layers = {each.layer for each in stage.program.tensors if each.category == "accumulators"}
    assert layers == {f"{model.name}/{layer.name}" for layer in model.layers}


@pytest.mark.slow
def test_replicas_alone_need_no_accumulators():
    assert bytes_of(step_of(fitted(2, 1)[1]), "accumulators") == 0


@pytest.mark.slow
def test_accumulators_of_embeddings_are_as_large_as_the_table():
    def build():
        return keras.Sequential(
            [
                keras.Input((FEATURES,)),
                keras.layers.Lambda(lambda x: tf.cast(tf.abs(x), "int32")),
                keras.layers.Embedding(1000, 4),
                keras.layers.Flatten(),
                keras.layers.Dense(CLASSES),
            ]
        )

    step = step_of(fitted(1, 4, build=build)[1])
    assert bytes_of(step, "accumulators") >= 1000 * 4 * 4


@pytest.mark.slow
def test_a_batch_norm_group_is_charged_as_single_replicas():
    def build():
        return keras.Sequential(
            [
                keras.Input((FEATURES,)),
                keras.layers.BatchNormalization(),
                keras.layers.Dense(CLASSES),
            ]
        )

    def group_of(size):
        cfg = IPUConfig()
        cfg.auto_select_ipus = 4
        cfg.ipu_model.tiles_per_ipu = 16
        cfg.norms.experimental.distributed_batch_norm_replica_group_size = size
        cfg.configure_ipu_system()
        strategy = IPUStrategy()
        with strategy.scope():
            model = compile_model(build(), steps_per_execution=2)
        model.set_gradient_accumulation_options(2)
        model.fit(batches(samples(8 * BATCH), BATCH), verbose=0)
        return step_of(strategy.report())

    alone, grouped = group_of(1), group_of(2)
    assert alone.cycles == grouped.cycles
    assert alone.samples_per_update == grouped.samples_per_update == 8 * BATCH


@pytest.mark.slow
def test_evaluation_and_prediction_count_all_replicas():
    model, _ = fitted(2, 4)
    x, y = samples(BATCH * 8)
    model.evaluate(x, y, batch_size=BATCH, verbose=0)
    model.predict(x, batch_size=BATCH, verbose=0)
    programs = {program.name: program for program in model.distribute_strategy.report().programs}
    for name in ("test_step", "predict_step"):
        step = programs[f"{model.name}.{name}"].device
        assert (step.micro_batches, step.replicas) == (1, 2)
        assert step.samples_per_update == 2 * BATCH
        assert step.all_reduce_cycles == 0
    (estimated,) = ipu_tf.estimate(model, batch_size=BATCH, training=False).programs
    assert estimated.device.cycles == programs[f"{model.name}.predict_step"].device.cycles


def test_the_text_says_what_an_update_is_made_of(of_two_replicas):
    model, report = of_two_replicas
    text, step = report.summary(), step_of(report)
    assert "2 replicas of one bow IPU, 16 tiles" in text
    assert "weight update 4 x micro-batch, all-reduce over 2 replicas, update" in text
    assert f"{step.cycles:,} cycles a weight update" in text
    assert "32 samples an update (4 x 4 x 2)" in text
    assert "a call from the host runs 3 weight updates in" in " ".join(text.split())
    # Of less than 0.05 KiB on a tile: the table leaves out rows of zeros.
    assert step.memory.always_live["accumulators"].any()
    assert "accumulators, always live" not in text
    path = f"{model.name}/{model.layers[0].name}"
    row = next(line for line in text.splitlines() if line.startswith(f"  {path}"))
    _, cycles, share, forward, backward, update, *_ = row.split()  # Then a bar.
    numbers = [int(number.replace(",", "")) for number in (cycles, forward, backward, update)]
    assert numbers[0] == sum(numbers[1:])
    assert share.endswith("%")


@pytest.mark.slow
def test_layers_count_every_micro_batch(of_one_replica):
    step = step_of(of_one_replica[1])
    (stage,) = step.stages
    once = {layer.layer: layer for layer in figures.layers(on_one_ipu(stage.program, system=""))}
    for layer in figures.layers(step):
        assert layer.by_phase.get("forward", 0) == 4 * once[layer.layer].by_phase.get("forward", 0)
        assert layer.by_phase.get("update", 0) == once[layer.layer].by_phase.get("update", 0)
    assert sum(layer.cycles for layer in figures.layers(step)) == step.cycles


def test_a_file_gives_the_report_back(tmp_path, of_two_replicas):
    _, report = of_two_replicas
    path = tmp_path / "report.json"
    report.to_json(path)
    assert ipu_tf.Report.from_json(path).summary() == report.summary()


@pytest.mark.slow
def test_a_step_that_does_not_fit_is_refused_before_anything_runs():
    strategy = strategy_of(2)
    with strategy.scope():
        model = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(2**20)])
        model.compile("sgd", "mse", steps_per_execution=2)
    model.set_gradient_accumulation_options(2)
    before = model.get_weights()
    x = np.ones((4 * BATCH, FEATURES), "float32")
    with pytest.raises(IPUOutOfMemoryError, match="train_step"):
        model.fit(x, np.zeros((4 * BATCH, 2**20), "float32"), batch_size=BATCH, verbose=0)
    for mine, kept in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(mine, kept)
    (step,) = strategy.report().programs
    assert not all(ipu.memory.fits for ipu in step.device.ipus)
    assert "OUT OF MEMORY by" in strategy.report().summary()


def test_options_of_an_uncompiled_model_count():
    strategy = strategy_of(1)
    with strategy.scope():
        model = sequential()
    model.set_gradient_accumulation_options(4)
    report = ipu_tf.estimate(model, batch_size=BATCH)
    assert step_of(report).micro_batches == 4
    assert "is not compiled" in report.notes[0]


@pytest.mark.slow
def test_the_step_of_the_device_is_traced_once(monkeypatch):
    extracted = []
    extract = device_programs.extract

    def counted(*args, **kwargs):
        extracted.append(kwargs["name"])
        return extract(*args, **kwargs)

    monkeypatch.setattr(device_programs, "extract", counted)
    model, _ = fitted(2, 4, updates=2)
    assert extracted == [f"{model.name}.train_step"]
    model.fit(batches(samples(BATCH * 16), BATCH), verbose=0, epochs=2)
    assert len(extracted) == 1
    model.fit(batches(samples(2 * BATCH * 16), 2 * BATCH), verbose=0)
    assert len(extracted) == 2


@pytest.mark.slow
def test_native_numerics_are_reported_too():
    def report_of(numerics):
        cfg = IPUConfig()
        cfg.ipu_model.tiles_per_ipu = 16
        cfg.simulator.numerics = numerics
        cfg.configure_ipu_system()
        strategy = IPUStrategy()
        with strategy.scope():
            model = compile_model(sequential(), steps_per_execution=4)
        model.set_gradient_accumulation_options(4)
        model.fit(batches(samples(4 * BATCH), BATCH), verbose=0)
        return step_of(strategy.report())

    tiles, native = report_of("tiles"), report_of("native")
    assert native.micro_batches == tiles.micro_batches == 4
    assert native.cycles > 0
