"""The benchmark of models of Keras 2 against those of Keras 3: its command and its figures."""

import json
import subprocess
import sys

import pytest

from benchmarks import __main__ as command
from benchmarks import kerases, kinds
from benchmarks.kinds_networks import NETWORKS


def test_rounds_are_whole_executions():
    for name in kerases.NETWORKS:
        assert NETWORKS[name].steps % kerases.SETTINGS["steps_per_execution"] == 0


class FakeWorker:
    """Keras 2 trains twice as many samples a second in half of the CPU time."""

    def __init__(self, side, command):
        self.engine, self.command = side, command

    def __enter__(self):
        assert self.command[0] == "benchmarks.kerases_worker"
        return self

    def __exit__(self, *error):
        pass

    def ask(self, request):
        assert request == {"settings": kerases.SETTINGS, "steps": 20}
        factor = int(self.engine) - 1
        return {"images_per_second": 20.0 / factor, "cpu_seconds": 1.0 * factor}


def test_the_sides_take_turns(monkeypatch, tmp_path):
    monkeypatch.setattr(kinds, "Worker", FakeWorker)
    output = tmp_path / "kerases.json"
    arguments = ["kerases", "--only", "lstm", "--rounds", "2", "--restarts", "3"]
    assert command.main([*arguments, "--output", str(output)]) == 0
    (network,) = json.loads(output.read_text())["results"]
    assert network["samples_per_second"]["2"]["median"] == 20.0
    for ratio in ("ratio", "ratio_of_cpu_seconds"):
        assert network[ratio] == {"median": 2.0, "min": 2.0, "max": 2.0, "of_fastest_rounds": 2.0}


@pytest.mark.slow
@pytest.mark.parametrize("side", kerases.SIDES)
def test_a_worker_trains_a_model_of_its_keras(side):
    request = {"settings": kerases.SETTINGS, "steps": 10}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.kerases_worker", "mlp", "sgd", side],
        input=json.dumps(request) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["cpu_seconds"] > 0
