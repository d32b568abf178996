"""Sums and means over the replicas of a program."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_tf.internals.structures import TensorStructure
from ipu_tf.ops.kernels.collectives import collective, group_size


@tf.autograph.experimental.do_not_convert
def cross_replica_sum(
    x: tf.Tensor, replica_group_size: int | None = None, name: str | None = None
) -> tf.Tensor:
    """Returns the sum of the values that the replicas have of a tensor, the same on all of them.

    float16 values are added up in float32 and rounded once. The gradient is the sum of the
    gradients of all replicas.

    Args:
        x: A tensor.
        replica_group_size: Number of consecutive replicas that form a group with a sum of its own;
            it divides the number of replicas. None and 0 add up all replicas.
        name: Name of the operation.

    Raises:
        ValueError: The group size does not divide the number of replicas.
    """
    return _all_reduce(x, replica_group_size, "add", "cross_replica_sum", name)


@tf.autograph.experimental.do_not_convert
def cross_replica_mean(
    x: tf.Tensor, replica_group_size: int | None = None, name: str | None = None
) -> tf.Tensor:
    """Returns the mean of the values that the replicas have of a tensor, the same on all of them.

    The gradient is the mean of the gradients of all replicas.

    Args:
        x: A tensor.
        replica_group_size: Number of consecutive replicas that form a group with a mean of its own;
            it divides the number of replicas. None and 0 take the mean of all replicas.
        name: Name of the operation.

    Raises:
        ValueError: The group size does not divide the number of replicas.
    """
    return _all_reduce(x, replica_group_size, "mean", "cross_replica_mean", name)


@tf.autograph.experimental.do_not_convert
def assume_equal_across_replicas(
    tensors: TensorStructure, inplace: bool = False
) -> TensorStructure:
    """Returns tensors as they are: the program may rely on their equality on all replicas.

    Nothing checks it. Conditions and loops on such tensors take the same course on all replicas.

    Args:
        tensors: A tensor, or a structure of them.
        inplace: Whether the result may share memory with the tensors; it has no effect here.
    """
    del inplace
    return tf.nest.map_structure(tf.identity, tensors)


def _all_reduce(
    x: Any, replica_group_size: int | None, reduction: str, op: str, name: str | None
) -> tf.Tensor:
    # The vendor's operations take 0 for all.
    size = group_size(replica_group_size or None, op=op, argument="replica_group_size")
    x = tf.convert_to_tensor(x)
    if size == 1:
        return tf.identity(x, name=name or op)
    return collective(
        x, kind="all-reduce", size=size, shape=x.shape, name=name or op, reduction=reduction
    )
