"""`python -m benchmarks distributed`: sums over two processes, training, and the start of a job.

`ipu_tf` and bare MPI take turns in one job of `poprun`; TensorFlow's collectives have a job of
their own after it, since they and MPI would disturb each other. Jobs that train CIFAR-10's network
take turns, and so do the start of a job of two and that of one process.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.summary import OtherLoad, facts, significant, spread, times_in_turns

BYTES = (4, 10**6, 10**7, 10**8)
WANTED_RATIO = 1.3
"""At most, of a sum of at least 1 MB, to bare MPI's time."""

WANTED_ADDED_MILLISECONDS = 0.2
"""At most, beside bare MPI's, of a sum of 4 bytes."""

WANTED_SPEED = 1.3
"""At least, of the images per second of two processes, to TensorFlow's."""

WANTED_SPEED_OF_INSTANCES = 0.9
"""At least, of the images per second of two instances of two replicas, to one of four."""

WANTED_START_SECONDS = 1.0
"""At most, that a job of two starts later than a process."""

_WORKER = "benchmarks.distributed_worker"
_TRAINER = "benchmarks.distributed_fit"
_TURNS = 2
_NOTHING = (sys.executable, "-c", "pass")


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measures the sums in both jobs, the jobs that train, then the starts."""
    load = OtherLoad()
    sums = {**sums_in_job(options.rounds), **sums_of_tensorflow(options.rounds)}
    return {
        "benchmark": "distributed",
        "facts": facts() | {"other_cores": load.cores()},
        "sums": [summary(size, sums) for size in BYTES],
        "fit": speeds(fit_in_turns(-(-options.rounds // _TURNS))),
        "start": start(options.rounds),
    }


def summary(size: int, sums: Mapping[str, Mapping[str, list[float]]]) -> dict[str, Any]:
    """Returns the times of a sum, and whether they are within bounds.

    Args:
        size: Its bytes.
        sums: The seconds of each round, by the side and the bytes.
    """
    milliseconds = {
        side: spread([1000 * second for second in seconds[str(size)]])
        for side, seconds in sums.items()
    }
    ours, bare = (milliseconds[side]["median"] for side in ("ipu_tf", "mpi"))
    is_small = size < BYTES[1]
    return {
        "bytes": size,
        "milliseconds": milliseconds,
        "ratio_to_mpi": significant(ours / bare),
        "ratio_to_tensorflow": significant(ours / milliseconds["tensorflow"]["median"]),
        "within_bounds": ours - bare <= WANTED_ADDED_MILLISECONDS
        if is_small
        else ours / bare <= WANTED_RATIO,
    }


def speeds(images: Mapping[str, list[float]]) -> dict[str, Any]:
    """Returns the speeds of jobs that train, and whether they are within bounds.

    Args:
        images: The images per second of each round, by the job.
    """
    spreads = {job: spread(values) for job, values in images.items()}
    medians = {job: each["median"] for job, each in spreads.items()}
    to_stock = medians["2 instances of 1 replica"] / medians["tensorflow"]
    to_one = medians["2 instances of 2 replicas"] / medians["1 instance of 4 replicas"]
    return {
        "images_per_second": spreads,
        "ratio_to_tensorflow": significant(to_stock),
        "ratio_to_one_instance": significant(to_one),
        "within_bounds": to_stock >= WANTED_SPEED and to_one >= WANTED_SPEED_OF_INSTANCES,
    }


def fit_in_turns(rounds: int, turns: int = _TURNS) -> dict[str, list[float]]:
    """Returns the images per second of jobs that train CIFAR-10's network.

    Args:
        rounds: Those of a job; an extra one warms it.
        turns: Jobs of each kind, which take turns.
    """
    words = [sys.executable, "-m", _TRAINER, "ipu_tf", str(rounds)]
    poprun = [sys.executable, "-m", "ipu_tf.poprun"]
    jobs: dict[str, Callable[[], list[float]]] = {
        f"{count} instance{'s' * (count > 1)} of {local} replica{'s' * (local > 1)}": (
            functools.partial(
                _answer,
                [*poprun, f"--num-instances={count}", f"--num-replicas={count * local}", *words],
            )
        )
        for count, local in ((2, 1), (2, 2), (1, 4))
    }
    jobs["tensorflow"] = functools.partial(_of_two_workers, _TRAINER, "tensorflow", rounds)
    speeds_of_jobs: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(turns):
        for name in jobs if turn % 2 == 0 else reversed(tuple(jobs)):
            speeds_of_jobs[name] += jobs[name]()
    return speeds_of_jobs


def sums_in_job(rounds: int) -> dict[str, Any]:
    """Returns the seconds of the sums of `ipu_tf` and of bare MPI."""
    words = ["--num-instances=2", sys.executable, "-m", _WORKER, "mpi", str(rounds)]
    sums: dict[str, Any] = _answer([sys.executable, "-m", "ipu_tf.poprun", *words])
    return sums


def sums_of_tensorflow(rounds: int) -> dict[str, Any]:
    """Returns the seconds of the sums of TensorFlow's collectives."""
    sums: dict[str, Any] = _of_two_workers(_WORKER, "tensorflow", rounds)
    return sums


def start(rounds: int) -> dict[str, Any]:
    """Returns the seconds of a process that does nothing, and of a job of two."""
    job = [sys.executable, "-m", "ipu_tf.poprun", "--num-instances=2", *_NOTHING]
    seconds = times_in_turns(
        {
            "process": lambda: subprocess.run(_NOTHING, check=True),
            "job": lambda: subprocess.run(job, check=True, stdin=subprocess.DEVNULL),
        },
        rounds,
    )
    spreads = {side: spread(values) for side, values in seconds.items()}
    overhead = spreads["job"]["median"] - spreads["process"]["median"]
    return {
        "seconds": spreads,
        "added_seconds": significant(overhead),
        "within_bounds": overhead <= WANTED_START_SECONDS,
    }


def _of_two_workers(module: str, side: str, rounds: int) -> Any:
    """Returns what the first of two workers of TensorFlow's cluster prints."""
    addresses = [f"localhost:{port}" for port in _free_ports(2)]
    command = [sys.executable, "-m", module, side, str(rounds)]
    first, second = (_of_cluster(addresses, index) for index in range(2))
    with subprocess.Popen(command, env=second, stdout=subprocess.DEVNULL) as other:
        try:
            return _answer(command, first)
        finally:
            other.kill()


def _answer(command: list[str], environment: Mapping[str, str] | None = None) -> Any:
    process = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True
    )
    return json.loads(process.stdout.splitlines()[-1])


def _of_cluster(addresses: list[str], index: int) -> dict[str, str]:
    """Returns the environment of a worker of TensorFlow's cluster."""
    cluster = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
    return os.environ | {"TF_CONFIG": json.dumps(cluster)}


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("localhost", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports
