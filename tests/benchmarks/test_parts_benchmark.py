"""The benchmark of replicas, stages and float16: its command and its figures."""

import json

import keras
import pytest

from benchmarks import __main__ as command
from benchmarks import kinds, parts
from benchmarks.parts_worker import COUNT, Trainer, network
from ipu_tf import config


class FakeWorker:
    """Replicas take twice as long as one, stages half as long."""

    def __init__(self, side, command):
        self.engine, self.command = side, command

    def __enter__(self):
        assert self.command == ("benchmarks.parts_worker", "cnn", "auto")
        return self

    def __exit__(self, *error):
        pass

    def ask(self, request):
        assert request == {"settings": parts.SETTINGS, "steps": 20}
        return {"seconds": {"accumulation": 0.5, "replicas": 1.0, "stages": 0.25}[self.engine]}


def test_each_part_takes_turns_with_one(monkeypatch, tmp_path):
    monkeypatch.setattr(kinds, "Worker", FakeWorker)
    output = tmp_path / "parts.json"
    arguments = ["parts", "--only", "cnn", "--rounds", "2", "--restarts", "3"]
    assert command.main([*arguments, "--output", str(output)]) == 0
    replicas, stages = json.loads(output.read_text())["results"]
    assert replicas["name"] == "cnn: replicas / accumulation"
    assert replicas["ratio"]["median"] == 2.0
    assert stages["ratio"]["median"] == 0.5
    assert stages["milliseconds_of_an_update"]["stages"]["median"] == 250


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_stages_are_those_of_the_network(name):
    model, stages = network(name)
    assert len(stages) == len(model.layers) - 1
    assert sorted(set(stages)) == list(range(COUNT))


@pytest.mark.slow
@pytest.mark.parametrize("side", ["accumulation", "replicas", "stages", "mixed_float16"])
def test_a_worker_trains(side):
    try:
        trainer = Trainer("mlp", "auto", side)
        reply = trainer.answer({"settings": {"updates_per_execution": 2}, "steps": 4})
    finally:
        keras.config.set_dtype_policy("float32")
        config.reset_ipu_configuration()
    assert reply["seconds"] > 0
