"""The benchmark of jobs of several processes: sums are right, and bounds are kept."""

import importlib.util

import numpy as np
import pytest

from benchmarks import distributed, distributed_worker
from benchmarks.__main__ import parse


def test_sums_are_summarised_with_their_bounds():
    sums = {
        side: {str(size): [seconds] * 3 for size in distributed.BYTES}
        for side, seconds in (("ipu_tf", 0.0013), ("mpi", 0.001), ("tensorflow", 0.0026))
    }
    small, large = (distributed.summary(size, sums) for size in (4, 10**6))
    assert (large["ratio_to_mpi"], large["ratio_to_tensorflow"]) == (1.3, 0.5)
    assert (small["within_bounds"], large["within_bounds"]) == (False, True)
    assert large["milliseconds"]["mpi"] == {"median": 1.0, "min": 1.0, "max": 1.0}
    assert parse(["distributed", "--rounds", "3"]).rounds == 3


def test_speeds_are_compared_with_those_of_tensorflow_and_of_one_instance():
    images = {
        "2 instances of 1 replica": [260.0],
        "2 instances of 2 replicas": [180.0],
        "1 instance of 4 replicas": [200.0],
        "tensorflow": [200.0],
    }
    found = distributed.speeds(images)
    assert (found["ratio_to_tensorflow"], found["ratio_to_one_instance"]) == (1.3, 0.9)
    assert found["within_bounds"]
    images["2 instances of 2 replicas"] = [170.0]
    assert not distributed.speeds(images)["within_bounds"]


def test_a_wrong_sum_is_no_result(monkeypatch):
    monkeypatch.setattr(distributed_worker, "BYTES", (4, 40))
    found = distributed_worker.measure({"one": lambda values: values + 2}, 0, 2)
    assert {size: len(seconds) for size, seconds in found["one"].items()} == {"4": 2, "40": 2}
    with pytest.raises(ValueError, match="The sum of one over two processes is wrong"):
        distributed_worker.measure({"one": np.copy}, 0, 2)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="needs mpi4py")
def test_all_sides_are_measured():
    found = distributed.sums_in_job(1) | distributed.sums_of_tensorflow(1)
    assert {*found} == {"ipu_tf", "mpi", "tensorflow"}
    assert all(len(seconds) == 4 for seconds in found.values())
    images = distributed.fit_in_turns(1, turns=1)
    assert [len(speeds) for speeds in images.values()] == [1] * 4
    assert distributed.start(1)["added_seconds"] > 0
