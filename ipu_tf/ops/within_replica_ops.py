"""Collectives over the IPUs of one replica.

Each takes a list with a tensor for each IPU, in their order, and returns a list of that length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import tensorflow as tf

_REDUCTIONS: Mapping[str, Callable[[tf.Tensor], tf.Tensor] | None] = MappingProxyType(
    {
        "COLLECTIVE_OP_ADD": lambda stacked: tf.reduce_sum(stacked, axis=0),
        "COLLECTIVE_OP_MUL": lambda stacked: tf.reduce_prod(stacked, axis=0),
        "COLLECTIVE_OP_MIN": lambda stacked: tf.reduce_min(stacked, axis=0),
        "COLLECTIVE_OP_MAX": lambda stacked: tf.reduce_max(stacked, axis=0),
        "COLLECTIVE_OP_LOGICAL_AND": lambda stacked: _logical(tf.reduce_all, stacked),
        "COLLECTIVE_OP_LOGICAL_OR": lambda stacked: _logical(tf.reduce_any, stacked),
        "COLLECTIVE_OP_SQUARE_ADD": lambda stacked: tf.reduce_sum(tf.square(stacked), axis=0),
        "COLLECTIVE_OP_LOCAL": None,
    }
)
"""How the shards are combined, None for each shard by itself."""


@tf.autograph.experimental.do_not_convert
def all_reduce(input_shards: Sequence[tf.Tensor], op: object) -> list[tf.Tensor]:
    """Returns the reduction of the shards, once for each IPU.

    Args:
        input_shards: Tensors of one dtype and rank, that of IPU i at index i. Vectors are padded
            with zeros to the longest one.
        op: The reduction: "COLLECTIVE_OP_ADD", "..._MUL", "..._MIN", "..._MAX",
            "..._LOGICAL_AND", "..._LOGICAL_OR", "..._SQUARE_ADD", or "..._LOCAL" for none.

    Raises:
        ValueError: The shards are not different tensors of one shape and dtype, or there is no
            such reduction.
    """
    shards = _shards("all_reduce", input_shards)
    reduce = _reduction("all_reduce", op)
    with tf.name_scope("all_reduce"):
        shards = _pad("all_reduce", shards)
        if reduce is None:
            return [tf.identity(shard) for shard in shards]
        reduced = reduce(tf.stack(shards))
        return [tf.identity(reduced) for _ in shards]


@tf.autograph.experimental.do_not_convert
def reduce_scatter(input_shards: Sequence[tf.Tensor], op: object) -> list[tf.Tensor]:
    """Returns an equal part of the reduction of the shards for each IPU.

    With n shards of length l, every part has length ceil(l / n); the last ones end in zeros.

    Args:
        input_shards: Tensors of one dtype, of rank 1 or 0; see `all_reduce`.
        op: See there.

    Raises:
        ValueError: See `all_reduce`; or a tensor is of a higher rank.
    """
    shards = _shards("reduce_scatter", input_shards)
    reduce = _reduction("reduce_scatter", op)
    _check_rank("reduce_scatter", shards)
    with tf.name_scope("reduce_scatter"):
        flat = _pad("reduce_scatter", [tf.reshape(shard, [-1]) for shard in shards])
        count, length = len(flat), flat[0].shape.as_list()[0]
        part = -(-length // count)
        padded = [tf.pad(shard, [[0, part * count - length]]) for shard in flat]
        slices = [
            [shard[number * part : (number + 1) * part] for shard in padded]
            for number in range(count)
        ]
        if reduce is None:
            return [own[number] for number, own in enumerate(slices)]
        return [reduce(tf.stack(own)) for own in slices]


@tf.autograph.experimental.do_not_convert
def all_gather(input_shards: Sequence[tf.Tensor], axis: int = 0) -> list[tf.Tensor]:
    """Returns all shards one after the other, once for each IPU.

    Args:
        input_shards: Tensors of one dtype and rank, that of IPU i at index i; scalars become the
            elements of a vector.
        axis: The axis along which they are joined.

    Raises:
        ValueError: The shards are not different tensors of one dtype and rank.
    """
    shards = _shards("all_gather", input_shards)
    with tf.name_scope("all_gather"):
        value = tf.stack(shards) if not shards[0].shape.rank else tf.concat(shards, axis)
        return [tf.identity(value) for _ in shards]


def _logical(reduce: Callable[..., tf.Tensor], stacked: tf.Tensor) -> tf.Tensor:
    return tf.cast(reduce(tf.cast(stacked, tf.bool), axis=0), stacked.dtype)


def _shards(op: str, input_shards: Any) -> list[tf.Tensor]:
    if not isinstance(input_shards, list | tuple) or not input_shards:
        raise ValueError(
            f"within_replica_ops.{op}: pass a list with a tensor for each IPU. "
            f"Received: {input_shards!r}."
        )
    if len({id(shard) for shard in input_shards}) < len(input_shards):
        raise ValueError(
            f"within_replica_ops.{op}: the shards must be unique, a tensor for each IPU. Received "
            "a tensor more than once."
        )
    shards = [tf.convert_to_tensor(shard) for shard in input_shards]
    if len({(shard.dtype, shard.shape.rank) for shard in shards}) > 1:
        shapes = ", ".join(f"{shard.dtype.name}{shard.shape}" for shard in shards)
        raise ValueError(
            f"within_replica_ops.{op}: the shards must have the same type and rank. "
            f"Received: {shapes}."
        )
    return shards


def _check_rank(op: str, shards: list[tf.Tensor]) -> None:
    if shards[0].shape.rank not in (0, 1):
        raise ValueError(
            f"within_replica_ops.{op}: the shards must be of rank 0 or 1; tf.reshape them to [-1]. "
            f"Received: shape {shards[0].shape}."
        )


def _pad(op: str, shards: list[tf.Tensor]) -> list[tf.Tensor]:
    """Returns vectors with zeros up to the length of the longest; tensors of one shape as they are.

    Raises:
        ValueError: Tensors that are no vectors have different shapes.
    """
    shapes = [shard.shape.as_list() for shard in shards]
    if all(shape == shapes[0] for shape in shapes):
        return shards
    if len(shapes[0]) != 1:
        raise ValueError(
            f"within_replica_ops.{op}: the shards must have one shape, or be vectors. Received: "
            f"{', '.join(map(str, shapes))}."
        )
    longest = max(length for (length,) in shapes)
    return [
        tf.pad(shard, [[0, longest - length]])
        for shard, (length,) in zip(shards, shapes, strict=True)
    ]


def _reduction(op: str, reduction: Any) -> Callable[[tf.Tensor], tf.Tensor] | None:
    name = getattr(reduction, "name", reduction)
    if name not in _REDUCTIONS:
        raise ValueError(
            f"within_replica_ops.{op}: `op` must be one of {', '.join(_REDUCTIONS)}. "
            f"Received: op={reduction!r}."
        )
    return _REDUCTIONS[name]
