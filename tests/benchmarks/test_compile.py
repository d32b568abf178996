"""The `compile` benchmark: turns, ratios, workers."""

import argparse
import json
import sys
from pathlib import Path

import pytest

from benchmarks import compile as benchmark
from benchmarks import scalesim_worker
from benchmarks.errors import WorkerError


def answers(measured, task):
    measured.append(task)
    side = task.partition(":")[0]
    return {
        "seconds": {"ours": 1.0, "xla": 3.0, "hit": 1e-4, "planner": 0.5}[side],
        "planning_seconds": 0.25,
        "estimate_seconds": 8.0,
        "steps": 7,
        "layers": [[1, 1, 1, 1, 4, 5, 1]] * 2,
        "peak_bytes": 1 << 30,
    }


@pytest.fixture
def measured(monkeypatch):
    tasks = []
    monkeypatch.setattr(benchmark, "measure", lambda task: answers(tasks, task))
    return tasks


def test_sides_take_turns_and_the_ratio_is_theirs_over_ours(measured):
    result = benchmark.against_xla("cifar10", 2)
    assert measured == ["ours:cifar10", "xla:cifar10", "xla:cifar10", "ours:cifar10"]
    assert result["ratio"]["median"] == 3.0
    assert result["steps"] == 7


def test_all_parts_are_in_the_result(measured):
    result = benchmark.run(argparse.Namespace(rounds=1, scalesim_python="", scalesim_layers=0))
    assert result["against_xla_cpu"].keys() == {"resnet50", "cifar10"}
    assert result["estimate_of_1.8_billion_weights"]["peak_gib"]["max"] == 1.0
    assert result["run_with_cached_program_seconds"]["max"] == 1e-4
    assert "no --scalesim-python" in result["resnet50_layers"]["scalesim"]
    json.dumps(result)


def test_layers_go_to_the_other_simulator(measured, monkeypatch):
    asked = []

    def worker(command, text=""):
        asked.append((command, json.loads(text)))
        return {"seconds": 50.0}

    monkeypatch.setattr(benchmark, "json_of", worker)
    result = benchmark.against_scalesim("python-with-scalesim", 2)
    assert result["ratio"]["min"] == 100.0
    assert asked[0][0][0] == "python-with-scalesim"
    assert asked[0][1] == [[1, 1, 1, 1, 4, 5, 1]] * 2


def test_some_layers_are_the_smallest(measured, monkeypatch):
    asked = []
    layers = [[8, 8, 3, 3, 4, 4, 1], [8, 8, 1, 1, 4, 4, 1], [8, 8, 3, 3, 4, 4, 2]]
    monkeypatch.setattr(benchmark, "measure", lambda task: {"layers": layers, "seconds": 0.5})

    def worker(command, text=""):
        asked.extend(json.loads(text))
        return {"seconds": 50.0}

    monkeypatch.setattr(benchmark, "json_of", worker)
    result = benchmark.against_scalesim("python-with-scalesim", 1, 2)
    assert asked == [layers[1], layers[2]]
    assert (result["layers"], result["scalesim_layers"]) == (3, 2)


def test_a_failing_worker_gives_its_reason():
    with pytest.raises(WorkerError, match="failed: .*out of luck"):
        benchmark.json_of([sys.executable, "-c", "raise SystemExit('out of luck')"])


def test_the_last_line_of_a_worker_counts():
    assert benchmark.json_of([sys.executable, "-c", "print('noise'); print('{\"a\": 1}')"]) == {
        "a": 1
    }


def test_inputs_of_the_other_simulator(tmp_path):
    paths = scalesim_worker.write_inputs(str(tmp_path), [[4, 5, 3, 3, 8, 16, 2]])
    texts = {name: Path(path).read_text() for name, path in paths.items()}
    assert texts["topology"].splitlines()[1] == "layer0,4,5,3,3,8,16,2,"
    assert texts["layout"].splitlines()[1].count(",") == 21
    assert "ArrayHeight = 32" in texts["config"]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["hit", "planner"])
def test_workers_measure(task):
    assert benchmark.measure(task)["seconds"] > 0.0


@pytest.mark.slow
def test_a_block_of_billions_of_weights_takes_no_room_of_that_size():
    figures = benchmark.measure("ours:block")
    assert figures["peak_bytes"] < 2 << 30
    assert figures["estimate_seconds"] < 60
