"""The benchmark of the training loop: its cases, and one small measurement."""

import argparse
import json

import pytest

from benchmarks import __main__ as command
from benchmarks import first_step, keras_worker
from benchmarks import keras as benchmark
from benchmarks.errors import WorkerError
from ipu_tf import config


@pytest.fixture(autouse=True)
def _no_configuration_is_left():
    yield
    config.reset_ipu_configuration()


@pytest.mark.parametrize("case", benchmark.CASES, ids=lambda case: case.name)
def test_rounds_are_whole_executions_and_updates(case):
    side = keras_worker.side_of(case.name, "ipu_tf")
    for settings in case.ipu_tf:
        assert case.steps % settings["steps_per_execution"] == 0
        assert settings["steps_per_execution"] % side.micro_batches == 0


@pytest.mark.parametrize("case", benchmark.CASES, ids=lambda case: case.name)
def test_both_sides_see_the_same_samples(case):
    ours, stock = (keras_worker.side_of(case.name, side) for side in ("ipu_tf", "stock"))
    assert ours.batch * ours.replicas == stock.batch * stock.replicas
    assert ours.features == stock.features


@pytest.mark.slow
def test_a_worker_trains_and_answers():
    trainer = keras_worker.Trainer(keras_worker.side_of("mlp", "ipu_tf"))
    reply = trainer.answer({"settings": {"steps_per_execution": 10}, "steps": 20})
    assert reply["images_per_second"] > 0
    assert reply["peak_bytes"] > 1 << 20
    reply = trainer.answer({"settings": {"steps_per_execution": 10}, "steps": 15})
    assert "must be a divisor" in reply["error"]


def test_the_command_measures_what_it_is_asked_for(monkeypatch, capsys, tmp_path):
    measured = []
    monkeypatch.setattr(
        benchmark, "measure", lambda case, rounds: measured.append((case.name, rounds))
    )
    output = tmp_path / "keras.json"
    arguments = ["keras", "--only", "accumulation", "--rounds", "3", "--output", str(output)]
    assert command.main(arguments) == 0
    assert measured == [("accumulation", 3)]
    assert json.loads(output.read_text())["benchmark"] == "keras"
    assert json.loads(capsys.readouterr().out)["rounds"] == 3


def test_a_trial_that_fails_names_its_reason():
    class Broken:
        engine = "stock"

        def images_per_second(self, settings, steps):
            raise WorkerError("no such luck\nin detail")

    trial = benchmark.trial(Broken(), {"steps_per_execution": 1}, 10)
    assert trial == {"settings": {"steps_per_execution": 1}, "error": "no such luck"}


def test_options_default_to_everything():
    options = command.parse(["keras"])
    assert isinstance(options, argparse.Namespace)
    assert (options.only, options.rounds) == ("", 11)


def test_first_steps_take_turns(monkeypatch):
    asked = []

    def worker(command):
        asked.append(command[-2:])
        return {"seconds": {"stock": 1.0, "ipu_tf": 2.5}[command[-1]]}

    monkeypatch.setattr(first_step, "json_of", worker)
    result = first_step.measure(2)
    assert asked[:6] == [["mlp", side] for side in ("ipu_tf", "stock", "stock", "ipu_tf") * 2][:6]
    assert result["networks"]["mlp"]["ratio"] == 2.5
    assert result["networks"]["resnet50"]["seconds"]["stock"]["max"] == 1.0


@pytest.mark.parametrize(
    ("stock", "ours", "within"),
    [(1.0, 2.9, True), (1.0, 3.1, False), (10.0, 14.9, True), (10.0, 15.1, False)],
)
def test_first_step_may_take_half_as_long_again_or_two_seconds(stock, ours, within):
    figures = first_step.comparison({"stock": [stock], "ipu_tf": [ours]})
    assert figures["within_bounds"] is within


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("side", first_step.SIDES)
def test_a_first_step_is_trained(side):
    assert 0 < first_step.first_step("mlp", side) < 60
