"""Collectives between the processes of a job, of which there is one."""

from __future__ import annotations

import tensorflow as tf

from ipu_tf import scopes
from ipu_tf.distributed import popdist_strategy

__all__ = ["allgather", "allreduce", "broadcast", "popdist_strategy"]

_REDUCTIONS = ("SUM", "MEAN")


def allgather(value: tf.Tensor, tensor_name: str | None = None) -> tf.Tensor:
    """Returns the values of all processes, one after the other along the first axis.

    Args:
        value: A tensor of the host.
        tensor_name: Name of the operation.
    """
    return tf.identity(value, name=tensor_name)


def allreduce(
    value: tf.Tensor, reduce_op: tf.distribute.ReduceOp | str, tensor_name: str | None = None
) -> tf.Tensor:
    """Returns the sum or the mean of the values of all processes.

    Args:
        value: A tensor of the host.
        reduce_op: A `tf.distribute.ReduceOp`, or its name.
        tensor_name: Name of the operation.

    Raises:
        ValueError: The reduction is another.
    """
    name = reduce_op.name if isinstance(reduce_op, tf.distribute.ReduceOp) else reduce_op
    if name not in _REDUCTIONS:
        raise ValueError(
            "allreduce: `reduce_op` must be tf.distribute.ReduceOp.SUM or MEAN. "
            f"Received: {reduce_op!r}."
        )
    return tf.identity(value, name=tensor_name)


def broadcast(value: tf.Tensor, root_rank: int = 0, tensor_name: str | None = None) -> tf.Tensor:
    """Returns the value of one process.

    Args:
        value: A tensor of the host.
        root_rank: The number of the process: 0, as there is no other.
        tensor_name: Name of the operation.

    Raises:
        RuntimeError: It is called in a program of the IPU: processes talk on the host.
        ValueError: There is no process of that number.
    """
    if scopes.runs_on_ipu():
        raise RuntimeError(
            "broadcast runs on the host, between processes. Call it outside of `strategy.run` and "
            "of `ipu_scope`, or in `outside_compilation_scope`."
        )
    if root_rank != 0:
        raise ValueError(
            "broadcast: there is one process, so that `root_rank` must be 0. "
            f"Received: root_rank={root_rank!r}."
        )
    return tf.identity(value, name=tensor_name)
