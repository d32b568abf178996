"""Lookups in tables of embeddings."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_tf.ops.functions.host_embedding import (
    HostEmbedding,
    HostEmbeddingOptimizerSpec,
    HostEmbeddingSGDGAOptimizerSpec,
    create_host_embedding,
)

__all__ = [
    "HostEmbedding",
    "HostEmbeddingOptimizerSpec",
    "HostEmbeddingSGDGAOptimizerSpec",
    "create_host_embedding",
    "embedding_lookup",
]


@tf.autograph.experimental.do_not_convert
def embedding_lookup(
    params: tf.Tensor,
    ids: tf.Tensor,
    serialization_factor: int = 1,
    indices_are_sorted: bool = False,
    name: str | None = None,
) -> tf.Tensor:
    """Returns rows of a table.

    Args:
        params: The table, of shape [rows, ...].
        ids: Numbers of rows, int32 or int64.
        serialization_factor: Number of equal parts of the table that are looked up one after the
            other, which saves memory of the device. The rows are the same.
        indices_are_sorted: Whether `ids` ascend, which saves the device the sorting.
        name: Name scope of the lookup.

    Returns:
        A tensor of shape [*ids.shape, ...] and the dtype of `params`. In a graph of TensorFlow 1
        its gradient is a tensor of the table's shape: optimizers of TensorFlow 1 sum the rows of a
        sparse one by ids, whose number is known only when they run.

    Raises:
        ValueError: The factor is below 1 or does not divide the rows, or `ids` are not integers.
    """
    del indices_are_sorted
    params, ids = tf.convert_to_tensor(params), tf.convert_to_tensor(ids)
    if not ids.dtype.is_integer:
        raise ValueError(
            "embedding_lookup: ids must be integers; tf.cast them to tf.int32. "
            f"Received: ids of dtype {ids.dtype.name}."
        )
    if not tf.compat.v1.executing_eagerly_outside_functions():
        params = _with_dense_gradient(params)
    rows = params.shape[0]
    check_serialization("embedding_lookup", serialization_factor, rows)
    with tf.name_scope(name or "embedding_lookup"):
        if serialization_factor == 1:
            return tf.gather(params, ids)
        return _serialized(params, ids, serialization_factor)


@tf.custom_gradient
def _with_dense_gradient(params: tf.Tensor) -> tuple[tf.Tensor, Any]:
    return tf.identity(params), lambda upstream: tf.convert_to_tensor(upstream)


def check_serialization(owner: str, factor: object, rows: int) -> None:
    """Checks the number of parts that a table is split into.

    Args:
        owner: Name for the error.
        factor: Number of parts.
        rows: Number of rows of the table.

    Raises:
        ValueError: The factor is not a whole number from 1, or does not divide the rows.
    """
    if isinstance(factor, bool) or not isinstance(factor, int) or factor < 1 or rows % factor:
        raise ValueError(
            f"{owner}: serialization_factor must be a whole number of at least 1 that divides "
            f"the number of rows. Received: serialization_factor={factor!r}, {rows} rows."
        )


def _serialized(params: tf.Tensor, ids: tf.Tensor, factor: int) -> tf.Tensor:
    first, *later_parts = tf.split(params, factor)
    part_rows = first.shape[0]
    parts = range(1, factor)
    local = [ids - part * part_rows for part in parts]
    inside = [tf.logical_and(row >= 0, row < part_rows) for row in local]
    # The first part also looks up ids that are in no part, so that a wrong id raises its error.
    in_later_parts = tf.reduce_any(tf.stack(inside), axis=0)
    zeros = tf.zeros_like(ids)
    result = tf.gather(first, tf.where(in_later_parts, zeros, ids))
    for part, row, here in zip(later_parts, local, inside, strict=True):
        values = tf.gather(part, tf.where(here, row, zeros))
        mask = _with_axes(here, params.shape.rank - 1)
        result = tf.where(mask, values, result)
    return result


def _with_axes(tensor: tf.Tensor, count: int) -> tf.Tensor:
    """Returns a tensor with `count` more axes of size 1 at its end."""
    for _ in range(count):
        tensor = tensor[..., tf.newaxis]
    return tensor
