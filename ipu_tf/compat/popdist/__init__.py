"""`popdist`: which instance of a job this process is, and what instances do together."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import ParamSpec, TypeVar

from ipu_tf.processes.instances import instances
from ipu_tf.processes.job import communicator

_P = ParamSpec("_P")
_T = TypeVar("_T")


def init() -> None:
    """Meets the other instances of the job; alone it does nothing.

    Raises:
        CollectiveError: Not all of them come.
    """
    communicator()


def isPopdistEnvSet() -> bool:
    """Returns whether poprun started this process."""
    return instances().is_launched


def getNumInstances() -> int:
    """Returns the number of instances: without poprun, 1."""
    return instances().count


def getInstanceIndex() -> int:
    """Returns the number of this instance: without poprun, 0."""
    return instances().index


rank = getInstanceIndex


def getLocalInstanceIndex() -> int:
    """Returns the number of this instance among those of its host: without poprun, 0."""
    return instances().local_index


def getReplicaIndexOffset() -> int:
    """Returns the number of this instance's first replica among all: without poprun, 0."""
    return instances().replica_offset


def getNumTotalReplicas() -> int:
    """Returns the replicas of all instances: without poprun, 1."""
    return instances().total_replicas


def getNumLocalReplicas() -> int:
    """Returns the replicas of this instance: without poprun, 1."""
    return instances().local_replicas


def getNumIpusPerReplica() -> int:
    """Returns the IPUs of a replica: without poprun, 1."""
    return instances().ipus_per_replica


def checkNumIpusPerReplica(ipusPerReplica: int) -> bool:
    """Returns whether a replica has this number of IPUs: without poprun, 1."""
    return ipusPerReplica == getNumIpusPerReplica()


def getDeviceId(ipusPerReplica: int = 0) -> int:
    """Returns the id of the device with the IPUs of this process: the first device, 0."""
    return 0


def synchronize(*args: object, **kwargs: object) -> None:
    """Waits until all instances have called it; the arguments have no effect.

    Raises:
        CollectiveError: An instance does not come.
    """
    job = communicator()
    if job is not None:
        job.barrier("popdist.synchronize")


def finalizeBackend() -> None:
    """Does nothing: the instances part when the process ends."""


def execute_on_instances(
    instances: Collection[int], func: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
) -> _T | None:
    """Returns what a function returns, None where this process is not among the instances.

    Args:
        instances: The numbers of the instances that call the function.
        func: The function.
        args: Its arguments.
        kwargs: Its keyword arguments.
    """
    return func(*args, **kwargs) if getInstanceIndex() in instances else None
