"""`popdist` for one process: what scripts ask before they share work between processes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


def init() -> None:
    """Does nothing: there is one process, and nothing to connect."""


def isPopdistEnvSet() -> bool:
    """Returns False: no launcher started this process."""
    return False


def getNumInstances() -> int:
    """Returns the number of processes, 1."""
    return 1


def getInstanceIndex() -> int:
    """Returns the number of this process, 0."""
    return 0


def getLocalInstanceIndex() -> int:
    """Returns the number of this process among those of its host, 0."""
    return 0


def getReplicaIndexOffset() -> int:
    """Returns the number of this process's first replica among all replicas, 0."""
    return 0


def getNumTotalReplicas() -> int:
    """Returns the replicas of all processes: without a launcher, 1."""
    return 1


def getNumLocalReplicas() -> int:
    """Returns the replicas of this process: without a launcher, 1."""
    return 1


def getNumIpusPerReplica() -> int:
    """Returns the IPUs of a replica: without a launcher, 1."""
    return 1


def checkNumIpusPerReplica(ipusPerReplica: int) -> bool:
    """Returns whether a replica has this number of IPUs: without a launcher, 1."""
    return ipusPerReplica == getNumIpusPerReplica()


def getDeviceId(ipusPerReplica: int = 0) -> int:
    """Returns the id of the device with the IPUs of this process: the first device, 0."""
    return 0


def synchronize(*args: object, **kwargs: object) -> None:
    """Does nothing: there is no other process to wait for."""


def execute_on_instances(
    instances: Collection[int], func: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
) -> _T | None:
    """Returns what a function returns, None where this process is not among the instances.

    Args:
        instances: The numbers of the processes that call the function.
        func: The function.
        args: Its arguments.
        kwargs: Its keyword arguments.
    """
    return func(*args, **kwargs) if getInstanceIndex() in instances else None
