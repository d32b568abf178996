"""Sums over the replicas of a program of which each replica gets a part."""

from __future__ import annotations

import tensorflow as tf

from ipu_tf.ops.functions.reductions import LOCAL, reduction_of
from ipu_tf.ops.kernels import replica_context
from ipu_tf.ops.kernels.collectives import collective, group_size


@tf.autograph.experimental.do_not_convert
def reduce_scatter(
    x: tf.Tensor, replication_factor: int, op: str = "COLLECTIVE_OP_ADD", name: str | None = None
) -> tf.Tensor:
    """Returns this replica's part of a vector that is reduced over the replicas.

    Replica i gets the i-th of as many equal parts as there are replicas; zeros fill up the last.

    Args:
        x: A tensor of rank 1, or a structure of them.
        replication_factor: Number of consecutive replicas that form a group; it divides the number
            of replicas.
        op: The reduction: COLLECTIVE_OP_ADD, _MEAN, _MUL, _MIN, _MAX, _LOGICAL_AND, _LOGICAL_OR,
            _SQUARE_ADD (the sum of squares), or _LOCAL (the replica's own values).
        name: Name of the operation.

    Returns:
        A tensor of shape [ceil(extent / replication_factor)], or a list of them if `x` has several.

    Raises:
        ValueError: The reduction is unknown, a tensor has another rank, or the number of replicas
            is not divisible.
    """
    size = group_size(replication_factor, op="reduce_scatter", argument="replication_factor")
    reduction = reduction_of(op, "reduce_scatter")
    tensors = [tf.convert_to_tensor(leaf) for leaf in tf.nest.flatten(x)]
    parts = [_part(tensor, size, reduction, name or "reduce_scatter") for tensor in tensors]
    return parts[0] if len(parts) == 1 else parts


def _part(x: tf.Tensor, size: int, reduction: str, name: str) -> tf.Tensor:
    length = x.shape.as_list()[0] if x.shape.rank == 1 else None  # No `Dimension` of TensorFlow 1.
    if length is None:
        raise ValueError(f"reduce_scatter takes tensors of rank 1. Received: shape {x.shape}.")
    extent = -(-length // size)
    parts = tf.pad(x, [[0, extent * size - length]])
    if reduction == LOCAL:
        index = replica_context.replica_index() % size
        return tf.gather(tf.reshape(parts, [size, extent]), index, name=name)
    if size == 1:
        return tf.identity(tf.square(x) if reduction == "square_add" else x, name=name)
    return collective(
        parts, kind="reduce-scatter", size=size, shape=[extent], name=name, reduction=reduction
    )
