"""The benchmark of tile ops over numbers of threads."""

import argparse

import pytest

from benchmarks import __main__ as command
from benchmarks import fit, ops_threads
from benchmarks.errors import WorkerError
from benchmarks.shapes import LAYERS

SECONDS = {("tile", 1): 0.04, ("tile", 2): 0.02, ("stock", 1): 0.06, ("stock", 2): 0.04}


class FakeWorker:
    """A worker of a number of threads, whose ops take known times."""

    def __init__(self, engine, command):
        assert command == ("benchmarks.ops_worker",)
        self.count = int(engine)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def ask(self, request):
        assert request["times"] in (0, self.count)
        return {"seconds": SECONDS[request["side"], self.count], "times": self.count}


def test_scaling_is_the_time_with_the_fewest_threads_over_that_with_more(monkeypatch):
    monkeypatch.setattr(ops_threads, "Worker", FakeWorker)
    options = argparse.Namespace(only="512->10", threads=[2, 1, 2], rounds=3)
    result = ops_threads.run(options)
    assert [entry["pass"] for entry in result["results"]] == list(ops_threads.PASSES)
    assert result["ratio"] == {1: 1.5, 2: 2.0}
    assert result["scaling"] == {"tile": {2: 2.0}, "stock": {2: 1.5}}
    assert result["results"][0]["microseconds"] == {
        "tile": {1: 40000.0, 2: 20000.0},
        "stock": {1: 60000.0, 2: 40000.0},
    }


@pytest.mark.slow
def test_a_worker_runs_both_sides_of_an_op():
    number = next(n for n, layer in enumerate(LAYERS) if layer.name == "cifar10/dense 512->10")
    request = {"layer": number, "pass": "forward", "times": 0}
    with fit.Worker("1", ("benchmarks.ops_worker",)) as worker:
        for side in ops_threads.SIDES:
            answer = worker.ask(request | {"side": side})
            assert answer["times"] >= 1
            assert 0.0 < answer["seconds"] < 1.0
        with pytest.raises(WorkerError, match="KeyError: 'gpu'"):
            worker.ask(request | {"side": "gpu"})


def test_threads_are_at_most_the_cores(capsys):
    with pytest.raises(SystemExit):
        command.main(["ops", "--threads", "1", "0"])
    assert "--threads must be from 1 to" in capsys.readouterr().err
