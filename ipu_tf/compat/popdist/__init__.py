"""`popdist` for one process: what scripts ask before they share work between processes."""

from __future__ import annotations


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


def getNumTotalReplicas() -> int:
    """Returns the replicas of all processes: without a launcher, 1."""
    return 1


def getNumLocalReplicas() -> int:
    """Returns the replicas of this process: without a launcher, 1."""
    return 1


def getNumIpusPerReplica() -> int:
    """Returns the IPUs of a replica: without a launcher, 1."""
    return 1


def getDeviceId(ipus_per_replica: int = 1) -> int:
    """Returns the id of the device with the IPUs of this process: the first device, 0."""
    return 0
