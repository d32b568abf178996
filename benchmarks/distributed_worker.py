"""A process of the benchmark `distributed`: sums arrays with another one.

Usage: python -m benchmarks.distributed_worker mpi|tensorflow ROUNDS; the first process prints the
seconds of each round as JSON, by the side and the bytes of the array.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.distributed import BYTES
from benchmarks.summary import times_in_turns

Sum = Callable[[np.ndarray], np.ndarray]


def measure(sides: dict[str, Sum], index: int, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Returns the seconds of the sums of each side, which take turns; an extra round warms them.

    Args:
        sides: Functions that return the sum of an array over both processes.
        index: The number of this process.
        rounds: Turns of each side.

    Raises:
        ValueError: A sum is wrong.
    """
    seconds_of_sides: dict[str, dict[str, list[float]]] = {side: {} for side in sides}
    for size in BYTES:
        values = np.full(size // 4, index + 1, np.float32)
        for side, add in sides.items():
            if not (add(values) == 3).all():
                raise ValueError(f"The sum of {side} over two processes is wrong.")
        calls = {side: functools.partial(add, values) for side, add in sides.items()}
        for side, seconds in times_in_turns(calls, rounds).items():
            seconds_of_sides[side][str(size)] = seconds
    return seconds_of_sides


def with_mpi(rounds: int) -> tuple[int, Any]:
    """Returns this process's number, and the seconds of `ipu_tf` and of bare MPI."""
    from mpi4py import MPI

    from ipu_tf.processes.calls import CollectiveCall
    from ipu_tf.processes.job import communicator

    job, bare = communicator(), MPI.COMM_WORLD.Dup()
    if job is None:
        raise ValueError("The benchmark needs a job of two instances: start it by poprun.")
    call = CollectiveCall(kind="all-reduce", name="benchmark", reduction="add")
    rank = job.rank

    def ours(values: np.ndarray) -> np.ndarray:
        return job.all_reduce(call, values[np.newaxis], first=rank, count=1, group=2)

    def mpi(values: np.ndarray) -> np.ndarray:
        summed = np.empty_like(values)
        bare.Allreduce(values, summed)
        return summed

    seconds = measure({"ipu_tf": ours, "mpi": mpi}, rank, rounds)
    job.barrier("end")
    return rank, seconds


def with_tensorflow(rounds: int) -> tuple[int, Any]:
    """Returns this process's number, and the seconds of TensorFlow's collectives."""
    import tensorflow as tf

    tf.distribute.MultiWorkerMirroredStrategy()
    index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    keys = iter(range(100, 10**6))

    def add(values: np.ndarray) -> np.ndarray:
        summed = tf.raw_ops.CollectiveReduceV2(
            input=values,
            group_size=2,
            group_key=7,
            instance_key=next(keys),
            ordering_token=[],
            merge_op="Add",
            final_op="Id",
            communication_hint="ring",
            timeout_seconds=60,
        )
        total: np.ndarray = summed.numpy()
        return total

    return index, measure({"tensorflow": add}, index, rounds)


def main() -> None:
    """Measures one kind of sums."""
    kind, rounds = sys.argv[1], int(sys.argv[2])
    index, seconds = (with_mpi if kind == "mpi" else with_tensorflow)(rounds)
    if index == 0:
        print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    main()
