"""The benchmarks: statistics, shapes, command line and one small measurement."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import __main__ as command
from benchmarks import fit, ops, summary
from benchmarks.errors import WorkerError
from benchmarks.shapes import LAYERS, Layer


def test_spread_is_median_minimum_maximum():
    assert summary.spread([3.0, 1.0, 2.00004]) == {"median": 2.0, "min": 1.0, "max": 3.0}


def test_spread_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="at least one value"):
        summary.spread([])


def test_geometric_mean_of_a_ratio_and_its_inverse_is_one():
    assert summary.geometric_mean([4.0, 0.25]) == 1.0


@pytest.mark.parametrize("values", [[], [1.0, 0.0]])
def test_geometric_mean_needs_positive_values(values):
    with pytest.raises(ValueError, match=r"needs positive values. Received"):
        summary.geometric_mean(values)


def test_there_are_enough_layers_and_each_has_a_name():
    names = [layer.name for layer in LAYERS]
    assert len(set(names)) == len(names) >= 20


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_output_shape_is_tensorflows(layer):
    x, w = tf.TensorSpec(layer.input), tf.TensorSpec(layer.weights)
    function = tf.function(ops.layer_ops(layer)["stock"], autograph=False)
    assert tuple(function.get_concrete_function(x, w).output_shapes) == layer.output


def test_flop_counts_multiplications_and_additions():
    assert Layer(name="dense", input=(2, 3), weights=(3, 5)).flop == 2 * 2 * 3 * 5
    conv = Layer(name="conv", input=(1, 4, 4, 2), weights=(3, 3, 2, 5), padding="VALID")
    assert conv.output == (1, 2, 2, 5)
    assert conv.flop == 2 * (2 * 2 * 5) * (3 * 3 * 2)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("pass_", ops.PASSES)
@pytest.mark.parametrize(
    "layer",
    [
        Layer(name="dense", input=(4, 6), weights=(6, 5)),
        Layer(name="conv", input=(2, 6, 6, 3), weights=(3, 3, 3, 4), stride=2),
    ],
    ids=lambda layer: layer.name,
)
def test_both_sides_measure_the_same_values(layer, pass_):
    totals = [
        ops.repeated(op, pass_, layer, seed=3)(tf.constant(2)).numpy()
        for op in ops.layer_ops(layer).values()
    ]
    assert totals[0] == pytest.approx(totals[1], rel=1e-4, abs=1e-5)
    assert totals[0] != 0.0


def test_measurement_has_times_and_ratios():
    layer = Layer(name="dense", input=(4, 6), weights=(6, 5))
    result = ops.measure(layer, "forward", rounds=2)
    assert result["layer"] == "dense"
    assert set(result["microseconds"]) == {"tile", "stock"}
    assert 0.0 < result["ratio"]["min"] <= result["ratio"]["median"] <= result["ratio"]["max"]


@pytest.mark.parametrize(
    ("task", "first"),
    [
        ("ops", "cifar10/conv 3->32 same"),
        ("keras", "mlp, cifar10"),
        ("kinds", "mlp, cnn"),
        ("kerases", "mlp, cnn, lstm."),
        ("parts", "mlp, cnn, cifar10."),
    ],
)
def test_an_unknown_name_lists_the_names(task, first, capsys):
    assert command.main([task, "--only", "vgg"]) == 1
    assert f"no name contains 'vgg'. The names: {first}" in capsys.readouterr().err


def test_command_prints_and_writes_the_result(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(ops, "run", lambda options: {"rounds": options.rounds})
    output = tmp_path / "result.json"
    assert command.main(["ops", "--rounds", "3", "--output", str(output)]) == 0
    assert json.loads(capsys.readouterr().out) == {"rounds": 3}
    assert json.loads(output.read_text()) == {"rounds": 3}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "--steps", "60"], "--steps must be a multiple of 50. Received: 60"),
        (["fit", "--rounds", "0"], "--rounds must be at least 1. Received: 0"),
    ],
)
def test_command_refuses_bad_numbers(arguments, message, capsys):
    with pytest.raises(SystemExit):
        command.main(arguments)
    assert message in capsys.readouterr().err


class FakeWorker:
    """A worker whose speed depends on the settings, and which cannot jit."""

    engine = "fake"

    def images_per_second(self, settings, steps):
        if settings["jit_compile"]:
            raise WorkerError("no jit here")
        return 100.0 - abs(settings["steps_per_execution"] - 10)


def test_fastest_setting_is_kept_and_failures_are_listed():
    trials = fit.try_settings([FakeWorker()])["fake"]
    assert fit.fastest(trials) == {"steps_per_execution": 10, "jit_compile": False}
    errors = [trial["error"] for trial in trials if trial["settings"]["jit_compile"]]
    assert errors == ["no jit here"]


def test_no_running_setting_is_an_error():
    with pytest.raises(WorkerError, match="No setting ran. Received: out of luck"):
        fit.fastest([{"error": "out of luck"}])


def test_own_time_is_not_the_time_of_others(monkeypatch):
    readings = iter([(0.0, 100.0, 10.0), (4.0, 107.0, 15.0)])
    monkeypatch.setattr(summary.OtherLoad, "_clock", lambda self: next(readings))
    assert summary.OtherLoad().cores() == 0.5


def test_load_is_read_from_the_system():
    clock, busy, own = summary.OtherLoad._clock()
    assert busy > own > 0.0
    assert clock > 0.0


@pytest.mark.slow
@pytest.mark.parametrize("engine", fit.ENGINES)
def test_worker_trains_and_names_its_errors(engine):
    with fit.Worker(engine) as worker:
        with pytest.raises(WorkerError, match=f"The {engine} worker failed: TypeError"):
            worker.images_per_second({"no_such_setting": 1}, 1)
        settings = {"steps_per_execution": 1, "jit_compile": False}
        assert worker.images_per_second(settings, 2) > 0.0


@pytest.mark.slow
def test_the_peak_of_a_process_is_its_own():
    room = np.ones(1 << 28, np.uint8)  # A process begins with the peak of the one that makes it.
    code = "from benchmarks.summary import peak_bytes; print(peak_bytes())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert 1 << 20 < int(run.stdout) < room.nbytes
