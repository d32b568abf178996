"""`ipu.horovod` of the vendor's earlier releases: the processes of a job, of which there is one."""

from __future__ import annotations

import tensorflow as tf

from ipu_tf import distributed
from ipu_tf.distributed import allgather, broadcast

__all__ = [
    "Average",
    "Sum",
    "allgather",
    "allreduce",
    "broadcast",
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
    """Returns the sum or the mean of the tensors of all processes, of which there is one.

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


def init() -> None:
    """Does nothing: there are no other processes to meet."""


def is_initialized() -> bool:
    """Returns True: there is nothing to initialise."""
    return True


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
