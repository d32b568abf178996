"""Exchanges of parts and of whole tensors between the replicas of a program."""

from __future__ import annotations

import tensorflow as tf

from ipu_tf.internals.structures import TensorStructure
from ipu_tf.ops.kernels.collectives import collective, group_size


@tf.autograph.experimental.do_not_convert
def all_to_all(
    x: tf.Tensor,
    split_dimension: int,
    concat_dimension: int,
    replication_factor: int,
    name: str | None = None,
) -> tf.Tensor:
    """Returns the parts that all replicas have for this one, joined in the order of the replicas.

    Each replica splits its tensor into one part for each replica. The gradient is the exchange
    back.

    Args:
        x: A tensor; the number of replicas divides its extent along `split_dimension`.
        split_dimension: The axis along which a replica splits its tensor.
        concat_dimension: The axis along which a replica joins the parts that it gets.
        replication_factor: Number of consecutive replicas that exchange parts; it divides the
            number of replicas.
        name: Name of the operation.

    Raises:
        ValueError: The number of replicas is not divisible, an axis does not exist, or the tensor
            cannot be split.
    """
    size = group_size(replication_factor, op="all_to_all", argument="replication_factor")
    x = tf.convert_to_tensor(x)
    for argument, axis in (
        ("split_dimension", split_dimension),
        ("concat_dimension", concat_dimension),
    ):
        if not 0 <= axis < (x.shape.rank or 0):
            raise ValueError(
                f"all_to_all: `{argument}` must be an axis of the tensor, whose shape is {x.shape}."
                f" Received: {axis!r}."
            )
    if (x.shape[split_dimension] or 0) % size:
        raise ValueError(
            f"all_to_all: {size} replicas cannot split the tensor, whose shape is {x.shape}, into "
            f"equal parts along axis {split_dimension}."
        )
    if size == 1:
        return tf.identity(x, name=name or "all_to_all")
    parts = tf.stack(tf.split(x, size, axis=split_dimension))
    parts_from_all = collective(
        parts, kind="all-to-all", size=size, shape=parts.shape, name=name or "all_to_all"
    )
    return tf.concat(tf.unstack(parts_from_all), axis=concat_dimension)


@tf.autograph.experimental.do_not_convert
def all_gather(x: tf.Tensor, replication_factor: int, name: str | None = None) -> TensorStructure:
    """Returns the tensors of all replicas, stacked on a new first axis in the order of replicas.

    The gradient of a replica's tensor is the sum of what all replicas pass back for it.

    Args:
        x: A tensor, or a list of tensors.
        replication_factor: Number of consecutive replicas that form a group; it divides the number
            of replicas.
        name: Name of the operation.

    Returns:
        A tensor of shape [replication_factor, *shape], or a list of them for a list.

    Raises:
        ValueError: The number of replicas is not divisible.
    """
    size = group_size(replication_factor, op="all_gather", argument="replication_factor")
    name = name or "all_gather"
    if isinstance(x, list | tuple) and any(tf.is_tensor(one) for one in x):
        return [_gather(tf.convert_to_tensor(one), size, name) for one in x]
    return _gather(tf.convert_to_tensor(x), size, name)


def _gather(x: tf.Tensor, size: int, name: str) -> tf.Tensor:
    if size == 1:
        return tf.expand_dims(x, 0, name=name)
    return collective(x, kind="all-gather", size=size, shape=[size, *x.shape], name=name)
