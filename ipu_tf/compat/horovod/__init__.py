"""`ipu.horovod` of the vendor's earlier releases, and `horovod.tensorflow`: values of the host."""

from __future__ import annotations

import functools
import socket
from collections.abc import Iterable, Sequence

import tensorflow as tf

from ipu_tf import distributed
from ipu_tf.distributed import allgather, broadcast
from ipu_tf.processes.calls import CollectiveCall
from ipu_tf.processes.instances import instances
from ipu_tf.processes.job import communicator

__all__ = [
    "Average",
    "Sum",
    "allgather",
    "allreduce",
    "broadcast",
    "broadcast_variables",
    "grouped_allreduce",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "rank",
    "shutdown",
    "size",
]


Average = tf.distribute.ReduceOp.MEAN
"""The mean over the processes, for `allreduce`."""

Sum = tf.distribute.ReduceOp.SUM
"""The sum over the processes, for `allreduce`."""


def allreduce(
    tensor: tf.Tensor,
    op: tf.distribute.ReduceOp | str = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
) -> tf.Tensor:
    """Returns the sum or the mean of the tensors of all processes.

    Args:
        tensor: A tensor of the host.
        op: `Sum` or `Average`, or the name of a `tf.distribute.ReduceOp`.
        prescale_factor: Factor of each tensor.
        postscale_factor: Factor of the result.
        name: Name of the operation.

    Raises:
        ValueError: The reduction is another.
    """
    tensor = tf.convert_to_tensor(tensor)
    scale = prescale_factor * postscale_factor
    scaled = tensor if scale == 1 else tensor * tf.cast(scale, tensor.dtype)
    return distributed.allreduce(scaled, op, name)


def grouped_allreduce(
    tensors: Sequence[tf.Tensor], op: tf.distribute.ReduceOp | str = Average
) -> list[tf.Tensor]:
    """Returns what `allreduce` returns for each of some tensors."""
    return [allreduce(tensor, op) for tensor in tensors]


def broadcast_variables(variables: Iterable[tf.Variable], root_rank: int = 0) -> None:
    """Gives variables the values that they have in one process."""
    for variable in variables:
        variable.assign(broadcast(variable, root_rank))


def init() -> None:
    """Meets the other processes of the job; alone it does nothing.

    Raises:
        CollectiveError: Not all of them come.
    """
    local_size()


def is_initialized() -> bool:
    """Returns True: there is nothing to initialise before the first use."""
    return True


def shutdown() -> None:
    """Does nothing: the processes part when they end."""


def size() -> int:
    """Returns the number of processes: without poprun, 1."""
    return instances().count


def rank() -> int:
    """Returns the number of this process: without poprun, 0."""
    return instances().index


@functools.cache
def local_size() -> int:
    """Returns the number of processes on this machine: without poprun, 1.

    All processes have to call it or `init` once.
    """
    job = communicator()
    if job is None:
        return 1
    host = socket.gethostname().encode()
    return job.all_gather(CollectiveCall(kind="all-gather", name="hosts"), host).count(host)


def local_rank() -> int:
    """Returns the number of this process on this machine: without poprun, 0."""
    return instances().local_index
