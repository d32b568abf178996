"""Where the instances of a job run, and which replicas and IPUs each has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from ipu_tf.processes.launch.options import LaunchOptions

_HEAD = ("instance", "host", "replicas", "IPUs")


class InstancePlace(TypedDict):
    """An instance of a job as plain data.

    Attributes:
        instance: Its number.
        host: Its host; "" where mpirun chooses it.
        replicas: Numbers of its replicas among those of the job.
        ipus: Numbers of its IPUs among those of the job.
    """

    instance: int
    host: str
    replicas: list[int]
    ipus: list[int]


def topology(options: LaunchOptions) -> list[InstancePlace]:
    """Returns the instances of a job, in order."""
    replicas = options.replicas // options.instances
    per_host = options.instances // max(len(options.hosts), 1)
    instances: list[InstancePlace] = []
    for index in range(options.instances):
        own = range(index * replicas, (index + 1) * replicas)
        ipus = range(own[0] * options.ipus_per_replica, own.stop * options.ipus_per_replica)
        host = options.hosts[index // per_host] if options.hosts else ""
        instances.append(
            {"instance": index, "host": host, "replicas": list(own), "ipus": list(ipus)}
        )
    return instances


def topology_text(options: LaunchOptions) -> str:
    """Returns the instances of a job as a table."""
    rows = [_HEAD] + [
        (
            str(one["instance"]),
            one["host"] or "chosen by mpirun",
            _span(one["replicas"]),
            _span(one["ipus"]),
        )
        for one in topology(options)
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _span(numbers: Sequence[int]) -> str:
    return f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else str(numbers[0])
