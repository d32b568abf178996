"""The generated operations of the vendor's plugin for collectives."""

from __future__ import annotations

import tensorflow as tf

from ipu_tf.ops.cross_replica_ops import cross_replica_mean, cross_replica_sum

__all__ = ("ipu_cross_replica_mean", "ipu_cross_replica_sum")


@tf.autograph.experimental.do_not_convert
def ipu_cross_replica_sum(
    input: tf.Tensor, replica_group_size: int = 0, name: str | None = None
) -> tf.Tensor:
    """Returns the sum of the values that the replicas have of a tensor.

    Args:
        input: A tensor.
        replica_group_size: Consecutive replicas with a sum of their own; 0 for all replicas.
        name: Name of the operation.

    Raises:
        ValueError: The group size does not divide the number of replicas.
    """
    return cross_replica_sum(input, replica_group_size or None, name)


@tf.autograph.experimental.do_not_convert
def ipu_cross_replica_mean(
    input: tf.Tensor, replica_group_size: int = 0, name: str | None = None
) -> tf.Tensor:
    """Returns the mean of the values that the replicas have of a tensor.

    Args:
        input: A tensor.
        replica_group_size: Consecutive replicas with a mean of their own; 0 for all replicas.
        name: Name of the operation.

    Raises:
        ValueError: The group size does not divide the number of replicas.
    """
    return cross_replica_mean(input, replica_group_size or None, name)
