"""Plans of reductions: each tile reduces its own piece, then tiles join in one or two stages.

Every tile reduces its own piece first. Tiles then exchange and reduce the partial results in one
stage, or in two: first in groups on many tiles, then the groups' results. The planner takes the
cheapest of these, and also tries to spread a badly spread operand first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ipu_tf.machine import exchange, vertices
from ipu_tf.machine.cost import Count, Counts, as_counts, ceil_div
from ipu_tf.machine.target import Target

_GRAIN_BYTES = 16
"""Partial results stay together in the pieces that one load reads from interleaved memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionStage:
    """A stage that reduces partial results of other tiles.

    Attributes:
        tiles: Tiles that reduce.
        outputs: Results on each of them.
        depth: Partial results that go into each.
    """

    tiles: int
    outputs: int
    depth: int


@lru_cache(maxsize=1 << 13)
def plan_stages(
    *,
    partials: int,
    outputs: int,
    dtype: str,
    operands: int,
    sent_outputs: int,
    target: Target,
) -> tuple[ReductionStage, ...]:
    """Returns the stages in which tiles add up their partial results.

    Args:
        partials: Tiles that have a partial result of the same output.
        outputs: Results in all.
        dtype: Type of the partial results.
        operands: Tensors that are reduced together.
        sent_outputs: Partial results on each tile.
        target: The machine.
    """
    if partials <= 1:
        return ()
    last = _stage(outputs, partials, dtype, target)
    one_cycles = int(_cycles(last.outputs, last.depth, sent_outputs, dtype, operands, target))
    # First depths worth trying: powers of two that leave something for the second stage.
    depths = 2 ** np.arange(1, max(2, int(partials).bit_length()), dtype=np.int64)
    depths = depths[depths < partials]
    if not len(depths):
        return (last,)
    groups = as_counts(ceil_div(partials, depths))
    first_tiles = as_counts(_stage_tiles(outputs * groups, dtype, target))
    first_outputs = as_counts(ceil_div(outputs * groups, first_tiles))
    two_cycles = _cycles(first_outputs, depths, sent_outputs, dtype, operands, target) + _cycles(
        last.outputs, groups, first_outputs, dtype, operands, target
    )
    best = int(np.argmin(two_cycles))
    if one_cycles <= two_cycles[best]:
        return (last,)
    return (
        ReductionStage(
            tiles=int(first_tiles[best]),
            outputs=int(first_outputs[best]),
            depth=int(depths[best]),
        ),
        _stage(outputs, int(groups[best]), dtype, target),
    )


def _stage(outputs: int, depth: int, dtype: str, target: Target) -> ReductionStage:
    tiles = int(_stage_tiles(outputs, dtype, target))
    return ReductionStage(tiles=tiles, outputs=ceil_div(outputs, tiles), depth=depth)


def _stage_tiles(outputs: Count, dtype: str, target: Target) -> Count:
    """Returns the number of tiles for the results of a stage, in whole grains."""
    grain = max(1, _GRAIN_BYTES // vertices.dtype_bytes(dtype))
    return np.minimum(target.tiles, ceil_div(outputs, grain))


def _cycles(
    outputs: Count,
    depth: Count,
    sent_outputs: Count,
    dtype: str,
    operands: int,
    target: Target,
) -> Counts:
    """Returns the cycles of stages: sync, exchange, reduction of received values."""
    size = vertices.dtype_bytes(dtype) * operands
    receive_bytes = as_counts(outputs) * depth * size
    exchange_cycles = exchange.phase_cycles(
        receive_bytes, target, sent_bytes=as_counts(sent_outputs) * size
    )
    vertex = vertices.reduce(outputs, depth, dtype, target, interleaved=True, operands=operands)
    return np.asarray(exchange_cycles + vertex.cycles + target.sync_cycles)
