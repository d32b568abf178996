"""`python -m benchmarks distributed`: sums over two processes, and the start of a job.

`ipu_tf` and bare MPI take turns in one job of `poprun`; TensorFlow's collectives have a job of
their own after it, since they and MPI would disturb each other. The start of a job of two takes
turns with that of one process. A ratio above 1 means that `ipu_tf` is slower.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from benchmarks.summary import OtherLoad, facts, significant, spread, timed

BYTES = (4, 10**6, 10**7, 10**8)
WANTED_RATIO = 1.3
"""At most, of a sum of at least 1 MB, to bare MPI's time."""

WANTED_ADDED_MILLISECONDS = 0.2
"""At most, beside bare MPI's, of a sum of 4 bytes."""

WANTED_START_SECONDS = 1.0
"""At most, that a job of two starts later than a process."""

_WORKER = "benchmarks.distributed_worker"
_NOTHING = (sys.executable, "-c", "pass")


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measures the sums in both jobs, then the starts."""
    load = OtherLoad()
    sums = {**sums_in_job(options.rounds), **sums_of_tensorflow(options.rounds)}
    return {
        "benchmark": "distributed",
        "facts": facts() | {"other_cores": load.cores()},
        "sums": [summary(size, sums) for size in BYTES],
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


def sums_in_job(rounds: int) -> dict[str, Any]:
    """Returns the seconds of the sums of `ipu_tf` and of bare MPI."""
    words = ["--num-instances=2", sys.executable, "-m", _WORKER, "mpi", str(rounds)]
    return _answer([sys.executable, "-m", "ipu_tf.poprun", *words])


def sums_of_tensorflow(rounds: int) -> dict[str, Any]:
    """Returns the seconds of the sums of TensorFlow's collectives."""
    addresses = [f"localhost:{port}" for port in _free_ports(2)]
    command = [sys.executable, "-m", _WORKER, "tensorflow", str(rounds)]
    with subprocess.Popen(
        command, env=_of_cluster(addresses, 1), stdout=subprocess.DEVNULL
    ) as second:
        try:
            return _answer(command, _of_cluster(addresses, 0))
        finally:
            second.kill()


def start(rounds: int) -> dict[str, Any]:
    """Returns the seconds of a process that does nothing, and of a job of two."""
    job = [sys.executable, "-m", "ipu_tf.poprun", "--num-instances=2", *_NOTHING]
    seconds = timed(
        {
            "process": lambda: subprocess.run(_NOTHING, check=True),
            "job": lambda: subprocess.run(job, check=True, stdin=subprocess.DEVNULL),
        },
        rounds,
    )
    found = {side: spread(values) for side, values in seconds.items()}
    added = found["job"]["median"] - found["process"]["median"]
    return {
        "seconds": found,
        "added_seconds": significant(added),
        "within_bounds": added <= WANTED_START_SECONDS,
    }


def _answer(command: list[str], environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


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
