"""Sweeps by executors: the same outcomes, lost workers, and the instances of a job."""

import importlib.util
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

import ipu_tf
from ipu_tf import cli
from ipu_tf.machine import target
from ipu_tf.processes.instances import Instances
from ipu_tf.sweep import Outcome, evaluate
from ipu_tf.sweep.store import Store
from tests.sweep import sweep_models

MODEL = "tests.sweep.sweep_models:dense"
ROOT = Path(__file__).resolve().parents[2]
BATCHES = [1, 2, 3]


class Losing(Executor):
    """Calls functions at once; loses some calls first, and closes after a number of them."""

    def __init__(self, lost=0, taken=1000):
        self.lost, self.taken = lost, taken
        self.futures = []

    def submit(self, function, *words):
        if len(self.futures) == self.taken:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = Future()
        self.futures.append(future)
        if len(self.futures) <= self.lost:
            future.set_exception(ConnectionError("gone"))
        else:
            future.set_result(function(*words))
        return future


@pytest.fixture
def quick(monkeypatch):
    """Estimates take no time: the cycles are the batch size."""
    monkeypatch.setattr(
        evaluate,
        "evaluate",
        lambda model, point, training: Outcome(cycles=point.batch_size, fits=training),
    )


def cycles(found):
    return [each.outcome.cycles for each in found.estimates]


@pytest.mark.usefixtures("quick")
def test_an_executor_estimates_each_point_and_stays_open(tmp_path):
    results = tmp_path / "results.jsonl"
    with ThreadPoolExecutor(2) as executor:
        found = ipu_tf.sweep(MODEL, batch_size=BATCHES, executor=executor, results=results)
        assert executor.submit(threading.get_ident).result()
    assert cycles(found) == BATCHES
    with Store(results, json.loads(results.read_text().splitlines()[0])) as store:
        assert len(store.outcomes) == 3
    assert "IPU_TF_SWEEP_WORKER" not in os.environ


@pytest.mark.usefixtures("quick")
def test_points_of_lost_workers_run_again_three_times_at_most():
    assert cycles(ipu_tf.sweep(MODEL, batch_size=BATCHES, executor=Losing(lost=4))) == BATCHES
    found = ipu_tf.sweep(MODEL, batch_size=[1], executor=Losing(lost=3))
    assert found.estimates[0].outcome.error == "its worker was lost 3 times: ConnectionError: gone"


@pytest.mark.usefixtures("quick")
def test_a_sweep_goes_on_with_another_executor(tmp_path):
    kept = {"batch_size": BATCHES, "results": tmp_path / "results.jsonl"}
    message = "takes no more work: RuntimeError: cannot schedule .* Start another one and the same"
    with pytest.raises(RuntimeError, match=message):
        ipu_tf.sweep(MODEL, executor=Losing(lost=1, taken=3), **kept)
    executor = Losing()
    assert cycles(ipu_tf.sweep(MODEL, executor=executor, **kept)) == BATCHES
    assert 0 < len(executor.futures) <= 3


@pytest.mark.usefixtures("quick")
def test_a_model_that_workers_do_not_find_fails_its_points():
    found = ipu_tf.sweep("tests.nowhere:dense", batch_size=[1], executor=Losing())
    assert "tests.nowhere" in found.estimates[0].outcome.error


def test_what_cannot_be_handed_out_is_refused():
    with pytest.raises(TypeError, match="must be a concurrent.futures.Executor.* Received: 'dask'"):
        ipu_tf.sweep(MODEL, executor="dask")
    with pytest.raises(ValueError, match="leave out `processes`. Received: processes=2"):
        ipu_tf.sweep(MODEL, executor=Losing(), processes=2)
    with pytest.raises(TypeError, match="Other processes import the function"):
        ipu_tf.sweep(lambda: sweep_models.dense(), executor=Losing())


def spec(folder):
    path = folder / "sweep.json"
    path.write_text(json.dumps({"model": MODEL, "batch_size": BATCHES}))
    return path


def test_the_executor_of_mpi_needs_instances(tmp_path, capsys, monkeypatch):
    words = ["sweep", str(spec(tmp_path)), "--executor", "mpi"]
    assert cli.main(words) == 2
    assert "needs a job of at least two instances, of which the first" in capsys.readouterr().err
    monkeypatch.setenv("PMI_SIZE", "2")
    assert cli.main(words) == 2
    assert "poprun did not start them" in capsys.readouterr().err
    told = Instances(count=2, total_replicas=2, launcher="poprun").variables()
    for name, value in (told | {"PMI_RANK": "0"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    assert cli.main(words) == 2
    assert "--executor mpi needs mpi4py: pip install 'ipu_tf[dist" in capsys.readouterr().err


@pytest.mark.slow
def test_other_processes_give_the_same_outcomes():
    values = {"chip": [target("bow", tiles_per_ipu=16)], "batch_size": [4, 8]}
    with ProcessPoolExecutor(1) as executor:
        there = ipu_tf.sweep(MODEL, executor=executor, **values)
    assert there == ipu_tf.sweep(MODEL, processes=1, **values)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="needs mpi4py")
def test_the_instances_of_a_job_share_the_points(tmp_path):
    command = [
        *(sys.executable, "-m", "ipu_tf.poprun", "--num-instances=3"),
        *(sys.executable, "-m", "ipu_tf", "sweep", str(spec(tmp_path)), "--executor", "mpi"),
    ]
    settings = {"capture_output": True, "text": True, "cwd": ROOT, "timeout": 170}
    done = subprocess.run(command, stdin=subprocess.DEVNULL, **settings)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3 estimates of training steps")
    again = subprocess.run(command, stdin=subprocess.DEVNULL, **settings)
    assert "3 points, 3 known from an earlier run" in again.stderr
    assert again.stdout == done.stdout
