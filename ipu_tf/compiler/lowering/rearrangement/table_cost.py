"""The supersteps of look-ups in a table, and of updates of it, under a split over tiles.

Several groups need a copy of the table each: a look-up brings it to them, and an update adds up in
zeros of its own, which the groups then sum. Where rows are in parts, every part answers every
look-up: a second look-up, among the answers of all parts, finds the right one.

Everything here takes integers, or arrays with one entry per candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ipu_tf.compiler.lowering.rearrangement.table_shape import (
    INDEX_BYTES,
    TableShape,
    TableSplit,
    part_of,
)
from ipu_tf.machine import exchange, vertices
from ipu_tf.machine.cost import Count, Counts, as_counts, ceil_div
from ipu_tf.machine.target import Target
from ipu_tf.machine.vertices import Vertex

_SUM_GRAIN_BYTES = 16
"""Partial sums stay together in the pieces that one load reads from interleaved memory."""

COMBINED_IN_GROUPS = frozenset({"add", "multiply", "maximum", "minimum", "and", "or"})
"""Opcodes of updates whose groups may combine rows among themselves first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStage:
    """A superstep of a look-up or an update.

    Attributes:
        name: Its name.
        received_bytes: Bytes that the busiest tile receives, besides the table's own way to the
            tiles of its plan.
        vertex: The vertices of the busiest tile.
        pieces: Tiles that it receives from, where its group exchanges results.
        tiles: Tiles that work.
    """

    name: str
    received_bytes: Count
    vertex: Vertex
    pieces: Count = 0
    tiles: Count


def lookup_stages(shape: TableShape, split: TableSplit, target: Target) -> tuple[TableStage, ...]:
    """Returns the supersteps of a gather; the second takes no time if the rows are in one part."""
    part = part_of(shape, split)
    copy_bytes: Counts = np.where(as_counts(split.lookup_parts) > 1, part.block_bytes, 0)
    look_up = TableStage(
        name="look up",
        received_bytes=copy_bytes + part.lookups * INDEX_BYTES,
        vertex=vertices.multi_slice(
            part.columns, part.lookups, shape.dtype, target, rows=shape.rows, held_rows=part.rows
        ),
        tiles=split.tiles,
    )
    answers = np.where(as_counts(split.row_parts) > 1, part.answers, 0)
    answer_bytes = split.row_parts * part.columns * shape.element_bytes + INDEX_BYTES
    collect = TableStage(
        name="collect rows",
        received_bytes=answers * answer_bytes,
        vertex=vertices.multi_slice(part.columns, answers, shape.dtype, target),
        pieces=split.row_parts,
        tiles=split.tiles,
    )
    return look_up, collect


def update_stages(
    shape: TableShape, split: TableSplit, target: Target, *, combiner: str = "add"
) -> tuple[TableStage, ...]:
    """Returns the supersteps of a scatter; all but the second take no time for one group.

    Args:
        shape: The table.
        split: How it is split.
        target: The machine.
        combiner: The opcode that combines a row with what is there; "parameter" if it overwrites.
    """
    part = part_of(shape, split)
    several = as_counts(split.lookup_parts) > 1
    block = np.where(several, part.rows * part.columns, 0)
    fill = TableStage(
        name="fill partials",
        received_bytes=0,
        vertex=vertices.fill(block, shape.dtype, target),
        tiles=split.tiles,
    )
    spread: Counts = np.where(as_counts(split.row_parts) > 1, part.found_bytes, 0)
    update = TableStage(
        name="update rows",
        received_bytes=spread + part.lookups * INDEX_BYTES,
        vertex=vertices.multi_update(
            part.columns,
            part.lookups,
            shape.dtype,
            target,
            rows=shape.rows,
            held_rows=part.rows,
            accumulate=combiner != "parameter",
        ),
        tiles=split.tiles,
    )
    first, last, sums = _sum_stages(shape, split, block, target)
    opcode = combiner if combiner in COMBINED_IN_GROUPS else "add"
    add = TableStage(
        name="update table",
        received_bytes=0,
        vertex=vertices.elementwise(opcode, sums, shape.dtype, target, in_place=True),
        tiles=last.tiles,
    )
    return fill, update, first, last, add


def _sum_stages(
    shape: TableShape, split: TableSplit, block: Count, target: Target
) -> tuple[TableStage, TableStage, Count]:
    """Returns the stages that sum over groups, and the sums of a tile.

    Groups sum in one stage, or first in about the square root of them at a time: what is faster.

    Args:
        shape: The table.
        split: How it is split.
        block: Elements of a tile's partial sums; 0 if there is one group.
        target: The machine.
    """
    groups, blocks = (
        as_counts(split.lookup_parts),
        split.row_parts * as_counts(split.column_parts),
    )
    depth = np.ceil(np.sqrt(groups)).astype(np.int64)
    partials = ceil_div(groups, depth)
    sums, firsts = _piece(block, groups, shape), _piece(block, depth, shape)

    def stage(elements: Count, deep: Count, tiles: Count) -> TableStage:
        return TableStage(
            name="reduce partials",
            received_bytes=elements * deep * shape.element_bytes,
            vertex=vertices.reduce(elements, deep, shape.dtype, target, interleaved=True),
            pieces=deep,
            tiles=np.minimum(split.tiles, np.maximum(1, tiles)),
        )

    tiles = blocks * ceil_div(block, np.maximum(1, sums))
    first = stage(firsts, depth, blocks * partials * ceil_div(block, np.maximum(1, firsts)))
    last = stage(sums, partials, tiles)
    at_once = stage(sums, groups, tiles)
    staged = stage_cycles([first, last], target) < stage_cycles([at_once], target)
    return (
        stage(np.where(staged, firsts, 0), depth, first.tiles),
        stage(sums, np.where(staged, partials, groups), tiles),
        sums,
    )


def _piece(block: Count, parts: Count, shape: TableShape) -> Count:
    """Returns the elements of one of so many pieces of a block, in whole grains."""
    grain = _SUM_GRAIN_BYTES // shape.element_bytes
    return np.minimum(block, ceil_div(ceil_div(block, parts), grain) * grain)


def stage_cycles(stages: Sequence[TableStage], target: Target) -> Count:
    """Returns the cycles of stages: sync, exchange and vertices."""
    cycles: Count = 0
    for stage in stages:
        received_bytes = np.asarray(stage.received_bytes)
        cycles = cycles + np.where(received_bytes > 0, target.sync_cycles, 0)
        cycles = cycles + exchange.phase_cycles(received_bytes, target) + stage.vertex.cycles
    return cycles
