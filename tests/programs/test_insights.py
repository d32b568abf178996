"""Insights: every gain is that of an estimate with the change made."""

import dataclasses
import gc
import re
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

import ipu_tf
from ipu_tf import IPUConfig, cli, estimation, zoo
from ipu_tf.compiler import compile
from ipu_tf.compiler.host_call import call_cycles
from ipu_tf.profile.report import Report
from ipu_tf.programs import insights, replanning
from ipu_tf.programs.batch_search import BatchSearch
from ipu_tf.programs.calls import call_of
from ipu_tf.runtime.programs import rebatching
from tests.zoo import tiny


def network():
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        return keras.Sequential(
            [
                keras.Input((16, 16, 8)),
                keras.layers.Conv2D(64, 3, activation="relu"),
                keras.layers.Conv2D(64, 3, activation="relu"),
                keras.layers.Flatten(),
                keras.layers.Dense(256, "relu"),
                keras.layers.Dense(10, "softmax", dtype="float32"),
            ]
        )
    finally:
        keras.mixed_precision.set_global_policy("float32")


def config_of(**changes):
    config = IPUConfig()
    config.ipu_model.tiles_per_ipu = 256
    for name, value in changes.items():
        category, option = name.split("__")
        setattr(getattr(config, category), option, value)
    return config


IDLE_IO_TILES = {
    "io_tiles__num_io_tiles": 64,
    "io_tiles__available_memory_proportion": 0.0,
}
"""I/O tiles without room for data, so that transfers do not overlap and the tiles gain nothing."""


def estimated(batch_size=8, insights=False, **changes):
    report = ipu_tf.estimate(
        network, batch_size=batch_size, config=config_of(**changes), insights=insights
    )
    return report.programs[0]


@pytest.fixture(scope="module")
def program():
    return estimated(insights=True, **IDLE_IO_TILES)


def by_change(program):
    return {insight.change: insight for insight in program.insights}


def test_the_best_comes_first(program):
    gains = [insight.speedup for insight in program.insights]
    assert gains == sorted(gains, reverse=True)
    assert min(gains) > 1
    assert len(by_change(program)) == len(gains)


def called(program):
    return call_of(program.device, program.steps_per_execution)


def check(insight, changed):
    assert insight.cycles == changed.device.cycles
    assert insight.samples_per_second == called(changed).samples_per_second
    assert insight.max_tile_bytes == changed.device.memory.peak_tile_bytes.max()


def test_float16_partials_gain_what_an_estimate_with_them_does(program):
    half = {"partialsType": "half"}
    assert "convolutions.poplar_options" in by_change(program)["partials"].advice
    changed = estimated(
        **IDLE_IO_TILES,
        convolutions__poplar_options=half,
        matmuls__poplar_options=half,
    )
    check(by_change(program)["partials"], changed)


@pytest.mark.slow
def test_tiles_without_io_gain_what_an_estimate_does(program):
    check(by_change(program)["io_tiles"], estimated())


@pytest.mark.slow
def test_the_batch_that_gains_most_of_those_up_to_the_largest_that_fits(monkeypatch):
    tried, add = {}, BatchSearch.add

    def remember(search, samples, program):
        tried[samples] = program
        add(search, samples, program)

    monkeypatch.setattr(BatchSearch, "add", remember)
    found = by_change(estimated(insights=True, **IDLE_IO_TILES))["micro_batch"]
    samples = int(found.advice.split()[2])
    fitting = {count: program for count, program in tried.items() if program.fits}
    assert samples == max(fitting, key=lambda count: count / fitting[count].cycles)
    check(found, estimated(batch_size=samples, **IDLE_IO_TILES))
    assert not estimated(batch_size=2 * max(fitting), **IDLE_IO_TILES).device.fits


def test_longer_loops_gain_what_their_compiled_calls_take(program):
    found, device = by_change(program)["steps_per_execution"], program.device
    short, long = (call_cycles(device, runs) for runs in (1, 100))
    assert found.speedup == pytest.approx(100 * short / long)
    assert found.cycles == device.cycles
    assert found.samples_per_second == call_of(device, 100).samples_per_second
    assert "steps_per_execution=100" in found.advice
    round_trip = 2 * round(8.81e-6 * device.target.clock_hz)
    assert short == pytest.approx(device.cycles + round_trip, rel=0.3)
    # The loop itself takes time on the tiles: less than a step, more than a sync each iteration.
    loop = long - (short - device.cycles) - 100 * device.cycles
    assert 100 * device.target.sync_cycles < loop < 100 * device.cycles
    with pytest.raises(ValueError, match=r"at least once\. Received: runs=0"):
        call_cycles(device, 0)


@pytest.mark.slow
def test_what_does_not_fit_is_made_to_fit():
    program = estimated(batch_size=2048, insights=True)
    assert not program.device.fits
    assert program.insights
    assert all(insight.makes_fit for insight in program.insights)
    samples = int(by_change(program)["micro_batch"].advice.split()[2])
    assert samples < 2048
    assert estimated(batch_size=samples).device.fits


SHOWN = re.compile(
    r"time +.*?([\d,.]+) (samples/s|us a step|us a micro-batch); a call from the host"
)
GAIN = re.compile(r"to gain: ([\d.]+) x, ([\d,.]+) (samples/s|us a step|us a micro-batch) with")


def check_gains(text):
    """Every gain that a text shows is the ratio of two figures that it shows."""
    text = " ".join(text.split())
    (before, unit), *others = SHOWN.findall(text)
    assert not others
    gains = GAIN.findall(text)
    for gain, after, unit_of_gain in gains:
        assert unit_of_gain == unit
        old, new = (float(figure.replace(",", "")) for figure in (before, after))
        ratio = new / old if unit == "samples/s" else old / new
        assert float(gain) == pytest.approx(ratio, abs=0.006)
    return gains


def test_every_gain_is_the_ratio_of_two_figures_of_the_text(program):
    assert len(check_gains(Report(programs=(program,)).summary())) == len(program.insights)


def test_gains_of_programs_without_samples_are_ratios_of_times(program):
    device = dataclasses.replace(program.device, samples_per_run=0)
    source = dataclasses.replace(
        program.source, step=dataclasses.replace(program.source.step, samples_per_run=0)
    )
    unknown = dataclasses.replace(
        program, device=device, source=source, insights=(), insights_sought=False
    )
    gains = check_gains(Report(programs=(unknown,)).with_insights().summary())
    assert len(gains) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", tiny.NETWORKS)  # The others are larger ones of the same code.
def test_every_gain_of_a_network_of_the_zoo_is_the_ratio_of_two_figures(name, monkeypatch):
    monkeypatch.delenv("IPU_TF_INSIGHTS")
    monkeypatch.setattr(insights, "_MOST_INSTRUCTIONS", 30_000)
    make, _ = tiny.NETWORKS[name]
    axis = None if zoo.network(name).items else 0
    report = ipu_tf.estimate(make, batch_size=tiny.BATCH, batch_axis=axis)
    assert check_gains(report.summary())


def test_insights_are_in_files_and_text(program, tmp_path):
    report = Report(programs=(program,))
    report.to_json(tmp_path / "report.json.gz")
    again = Report.from_json(tmp_path / "report.json.gz")
    assert again.programs[0].insights == program.insights
    best = program.insights[0]
    assert f"to gain: {best.speedup:.2f} x, {best.samples_per_second:,.1f} samples/s" in str(again)
    # A program of a file cannot be planned again: it keeps what it has.
    assert again.with_insights().programs[0].insights == program.insights
    bare = dataclasses.replace(again.programs[0], insights=(), insights_sought=False)
    assert Report(programs=(bare,)).with_insights().programs[0].insights == ()


def dense():
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])
    model.compile("sgd", "mse")
    return model


def test_reports_have_insights_unless_they_are_left_out(monkeypatch):
    monkeypatch.delenv("IPU_TF_INSIGHTS")
    (with_them,) = ipu_tf.estimate(dense, batch_size=8).programs
    assert with_them.insights
    (without,) = ipu_tf.estimate(dense, batch_size=8, insights=False).programs
    assert without.insights == ()
    assert "to gain" not in Report(programs=(without,)).summary()
    monkeypatch.setenv("IPU_TF_INSIGHTS", "0")
    assert ipu_tf.estimate(dense, batch_size=8).programs[0].insights == ()


def test_the_first_line_advises_the_best_changes():
    report = ipu_tf.estimate(dense, batch_size=8, insights=True)
    first, second = report.programs[0].insights[:2]
    line = report.summary().splitlines()[0]
    assert line.endswith(
        f"{first.advice} ({first.speedup:.2f} x), or {second.advice} ({second.speedup:.2f} x)"
    )
    assert {first.change, second.change} == {"micro_batch", "steps_per_execution"}


def test_large_programs_have_the_changes_that_are_planned_soon(monkeypatch):
    monkeypatch.setattr(insights, "_MOST_INSTRUCTIONS", 10)
    monkeypatch.delenv("IPU_TF_INSIGHTS")
    report = ipu_tf.estimate(dense, batch_size=8)
    (program,) = report.programs
    assert {insight.change for insight in program.insights} == {"steps_per_execution"}
    assert "not planned: the program is large" in report.summary()
    report.with_insights()
    assert program.insights_note == ""


def test_a_report_does_not_fail_for_its_insights(monkeypatch):
    def fails(*_):
        raise RuntimeError("no such plan")

    monkeypatch.setattr(replanning, "compile_simplified", fails)
    monkeypatch.delenv("IPU_TF_INSIGHTS")
    report = ipu_tf.estimate(dense, batch_size=8)
    assert "not planned: planning another change failed, RuntimeError: no such" in report.summary()
    with pytest.raises(RuntimeError, match="no such plan"):
        ipu_tf.estimate(dense, batch_size=8, insights=True)


def test_a_watcher_gets_the_figures_first_and_then_each_insight():
    heard = []
    with insights.insight_watcher(lambda program, insight: heard.append((program, insight))):
        (program,) = ipu_tf.estimate(dense, batch_size=8, insights=True).programs
    assert heard[0][1] is None
    assert heard[0][0].device == program.device
    assert {insight for _, insight in heard[1:]} == set(program.insights)


def test_a_step_is_simplified_once_and_traced_for_one_other_batch(monkeypatch):
    simplified, traced = [], []
    known = compile.simplify
    monkeypatch.setattr(compile, "simplify", lambda m: simplified.append(m) or known(m))
    retrace = estimation._with_sources

    def counted(report, at):
        return retrace(report, at and (lambda samples: traced.append(samples) or at(samples)))

    monkeypatch.setattr(estimation, "_with_sources", counted)
    monkeypatch.delenv("IPU_TF_INSIGHTS")
    (program,) = ipu_tf.estimate(dense, batch_size=7).programs
    assert "micro_batch" in by_change(program)
    assert len(traced) == 1
    assert len(simplified) == 2


def not_linear():
    inputs = keras.Input((8,))
    outputs = keras.layers.Lambda(lambda x: tf.nn.relu(x) if x.shape[0] == 8 else x)(inputs)
    model = keras.Model(inputs, keras.layers.Dense(4)(outputs))
    model.compile("sgd", "mse")
    return model


@pytest.mark.slow
def test_batches_that_need_another_trace_have_a_note(monkeypatch):
    monkeypatch.delenv("IPU_TF_INSIGHTS")
    (program,) = ipu_tf.estimate(not_linear, batch_size=8).programs
    assert "micro_batch" in by_change(program)
    assert "samples, which need another trace; `with_insights()`" in program.insights_note
    (every,) = ipu_tf.estimate(not_linear, batch_size=8, insights=True).programs
    assert every.insights_note == ""


def test_programs_without_a_gain_say_so():
    made = ipu_tf.estimate(dense, batch_size=8, insights=False).programs[0]
    made.insights_sought = True
    assert "to gain: no change" in Report(programs=(made,)).summary()


def for_eight():
    inputs = keras.Input((8,))
    outputs = keras.layers.Lambda(lambda x: tf.ensure_shape(x, (8, 8)))(inputs)
    return keras.Model(inputs, keras.layers.Dense(4)(outputs))


def test_models_for_one_batch_size_have_a_note():
    (program,) = ipu_tf.estimate(for_eight, batch_size=8, insights=True).programs
    assert program.insights_note.startswith("batches of 64 samples: ")


def test_modules_in_hlo_text_have_insights(tmp_path):
    path = tmp_path / "dot.hlo"
    path.write_text(
        "HloModule m\n\nENTRY main {\n  x = f16[4096,512] parameter(0)\n"
        "  w = f16[512,512] parameter(1)\n  ROOT y = f16[4096,512] dot(x, w), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n"
    )
    assert cli.main(["estimate", str(path), "--insights", "--json", str(tmp_path / "r.json")]) == 0
    (program,) = Report.from_json(tmp_path / "r.json").programs
    assert program.insights_sought


@pytest.fixture
def configured():
    config_of().configure_ipu_system()
    yield
    ipu_tf.config.reset_ipu_configuration()


def trained():
    """A strategy with the program of a model that has trained, and the model."""
    strategy = ipu_tf.IPUStrategy()
    with strategy.scope():
        model = network()
        model.compile(keras.optimizers.SGD(0.01), "mse")
        x, y = np.zeros((8, 16, 16, 8), "float32"), np.zeros((8, 10), "float32")
        model.fit(x, y, batch_size=8, verbose=0)
    return strategy, model


@pytest.mark.slow
@pytest.mark.usefixtures("configured")
def test_a_strategy_plans_the_programs_of_its_models_again():
    strategy, model = trained()
    weights, optimizer = model.get_weights(), model.optimizer
    (program,) = strategy.report(insights=True).programs
    found = by_change(program)
    assert {"partials", "steps_per_execution", "micro_batch"} <= set(found)
    samples = int(found["micro_batch"].advice.split()[2])
    with strategy.scope():
        bigger = network()
        bigger.compile(keras.optimizers.SGD(0.01), "mse")
    changed = ipu_tf.estimate(bigger, batch_size=samples).programs[0]
    assert found["micro_batch"].cycles == changed.device.cycles
    # Neither the strategy nor the model notices; the program keeps what was found.
    (again,) = strategy.report().programs
    assert again.insights == program.insights
    assert model.optimizer is optimizer
    assert all(np.array_equal(a, b) for a, b in zip(weights, model.get_weights(), strict=True))


@pytest.mark.slow
@pytest.mark.usefixtures("configured")
def test_what_insights_need_does_not_keep_a_model_alive():
    strategy, model = trained()
    alive = weakref.ref(model)
    source = strategy.report().programs[0].source
    assert source.at_batch_size is not None
    del model
    gc.collect()
    assert alive() is None
    assert strategy.report().programs[0].source is None
    assert strategy.report(insights=True).programs[0].insights == ()
    assert source.at_batch_size(16) is None


@pytest.mark.usefixtures("configured")
def test_data_with_weights_of_samples_has_no_other_batches():
    strategy = ipu_tf.IPUStrategy()
    with strategy.scope():
        model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])
        model.compile("sgd", "mse")
        x, y = np.zeros((8, 8), "float32"), np.zeros((8, 4), "float32")
        model.fit(x, y, sample_weight=np.ones(8, "float32"), batch_size=8, verbose=0)
    (program,) = strategy.report().programs
    assert program.source.at_batch_size is None


@pytest.mark.parametrize(
    "batch",
    [
        (None, None),
        (tf.zeros((8, 8)), None),
        (tf.zeros((8, 8)), tf.constant(1.0)),
        (tf.zeros((8, 8)),),
        (tf.zeros((8, 8)), 3),
        None,
    ],
)
def test_only_batches_of_tensors_are_traced_again(batch):
    with ipu_tf.IPUStrategy().scope():
        model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])
    assert rebatching.retracer(model, "train_step", batch) is None
    tensors = (tf.zeros((8, 8)), tf.zeros((8, 4)))
    assert rebatching.retracer(model, "train_step", tensors) is not None
    assert rebatching.retracer(model, "test_step", tensors) is None
    assert rebatching.retracer(None, "train_step", tensors) is None


def badly_split():
    model = keras.Sequential(
        [keras.Input((256,)), *(keras.layers.Dense(256, "relu", name=f"d{n}") for n in range(6))]
    )
    model.set_pipeline_stage_assignment([0, 0, 0, 0, 0, 1])
    model.set_pipelining_options(gradient_accumulation_steps_per_replica=8)
    model.compile("sgd", "mse")
    return model


@pytest.mark.slow
def test_a_pipeline_is_split_and_run_in_other_ways():
    config = config_of()
    config.auto_select_ipus = 2
    report = ipu_tf.estimate(badly_split, batch_size=16, config=config, insights=True)
    (program,) = report.programs
    found = by_change(program)
    assert found["stages"].speedup > 1.05
    assert "begin the stages at" in found["stages"].advice
    assert "d5" not in found["stages"].advice
    assert "steps_per_replica=16" in found["gradient_accumulation"].advice
    assert "pipeline_schedule='Interleaved'" in found["schedule"].advice
