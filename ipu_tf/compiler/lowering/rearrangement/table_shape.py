"""Tables, their splits over tiles, and the part of a tile.

The tiles of a split form groups. Each group takes a part of the look-ups; within it, a tile holds
some columns of some rows, and visits all look-ups of its group. After poplibs' planner of
embeddings (DynamicSlice.cpp). Parts take integers, or arrays with one entry per candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

import numpy as np

from ipu_tf.machine import vertices
from ipu_tf.machine.cost import Count, ceil_div

INDEX_BYTES = 4

_GRAIN_BYTES = 8
"""Columns of a tile are whole vectors (poplibs: the unsliced grain)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShape:
    """A table and what is read or written at once.

    Attributes:
        rows: Rows of the table.
        columns: Elements of a row.
        lookups: Rows that are read, or written, at once.
        dtype: Type of the elements.
    """

    rows: int
    columns: int
    lookups: int
    dtype: str

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return vertices.dtype_bytes(self.dtype)

    @property
    def column_grain(self) -> int:
        """Columns that stay together."""
        grain = lcm(_GRAIN_BYTES, self.element_bytes) // self.element_bytes
        return min(self.columns, grain)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSplit:
    """How many parts the rows, the columns and the look-ups of a table are in."""

    row_parts: Count
    column_parts: Count
    lookup_parts: Count

    @property
    def tiles(self) -> Count:
        """Tiles that work."""
        return self.row_parts * self.column_parts * self.lookup_parts


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePart:
    """The part of a table, and of its look-ups, of the busiest tile.

    Attributes:
        rows: Rows of the table that it works on.
        columns: Columns of these.
        lookups: Look-ups that it visits.
        block_bytes: Bytes of those rows and columns.
        table_bytes: Bytes of them that it holds: groups share what all of them read.
        found_bytes: Bytes of those columns of all its look-ups.
        answers: Look-ups whose result it collects from the parts of the rows.
    """

    rows: Count
    columns: Count
    lookups: Count
    block_bytes: Count
    table_bytes: Count
    found_bytes: Count
    answers: Count


def part_of(shape: TableShape, split: TableSplit) -> TablePart:
    """Returns the part of the busiest tile."""
    grains = ceil_div(ceil_div(shape.columns, shape.column_grain), split.column_parts)
    columns = np.minimum(shape.columns, grains * shape.column_grain)
    rows = ceil_div(shape.rows, split.row_parts)
    lookups = ceil_div(shape.lookups, split.lookup_parts)
    return TablePart(
        rows=rows,
        columns=columns,
        lookups=lookups,
        block_bytes=rows * columns * shape.element_bytes,
        table_bytes=ceil_div(rows * columns, split.lookup_parts) * shape.element_bytes,
        found_bytes=lookups * columns * shape.element_bytes,
        answers=ceil_div(lookups, split.row_parts),
    )


def temporary_bytes(shape: TableShape, split: TableSplit) -> Count:
    """Returns the bytes that a look-up or an update takes on the busiest tile besides the table."""
    part = part_of(shape, split)
    copy_bytes = np.where(np.asarray(split.lookup_parts) > 1, part.block_bytes, 0)
    has_row_parts = np.asarray(split.row_parts) > 1
    part_bytes = split.row_parts * part.answers * part.columns * shape.element_bytes
    answer_bytes = np.where(has_row_parts, part.found_bytes + part_bytes, 0)
    update_bytes = 2 * copy_bytes + np.where(has_row_parts, part.found_bytes, 0)
    return np.maximum(copy_bytes + answer_bytes, update_bytes) + part.lookups * INDEX_BYTES
