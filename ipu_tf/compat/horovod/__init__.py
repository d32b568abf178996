"""`ipu.horovod` of the vendor's earlier releases: the processes of a job, of which there is one."""

from __future__ import annotations

from ipu_tf.distributed import allgather, allreduce, broadcast

__all__ = [
    "allgather",
    "allreduce",
    "broadcast",
    "init",
    "local_rank",
    "local_size",
    "rank",
    "shutdown",
    "size",
]


def init() -> None:
    """Does nothing: there are no other processes to meet."""


def shutdown() -> None:
    """Does nothing: there are no other processes to leave."""


def size() -> int:
    """Returns the number of processes: 1."""
    return 1


def rank() -> int:
    """Returns the number of this process: 0."""
    return 0


def local_size() -> int:
    """Returns the number of processes on this machine: 1."""
    return 1


def local_rank() -> int:
    """Returns the number of this process on this machine: 0."""
    return 0
