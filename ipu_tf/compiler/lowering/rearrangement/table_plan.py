"""Plans of tables: the split of their rows, their columns and their look-ups over tiles.

More columns per tile mean longer rows to copy, more rows fewer misses; more groups of look-ups mean
copies of the table, and sums of what they update. The planner takes the split with the fewest
cycles that fits, as poplibs' planner of embeddings does: of the look-up, of the update, or of both
if a program does both, so that a table and its gradient lie alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ipu_tf.compiler.lowering.rearrangement.table_cost import (
    lookup_stages,
    stage_cycles,
    update_stages,
)
from ipu_tf.compiler.lowering.rearrangement.table_shape import (
    TableShape,
    TableSplit,
    part_of,
    temporary_bytes,
)
from ipu_tf.machine import exchange
from ipu_tf.machine.cost import Count, as_counts, ceil_div
from ipu_tf.machine.target import Target
from ipu_tf.tile_program.layouts.layout import Axis, BlockLayout
from ipu_tf.tile_program.layouts.layout_form import blocks

_TEMPORARY_SHARE = 0.6
"""Share of a tile's memory that a plan may take while it runs (poplibs' default)."""

_TABLE_SHARE = 0.5
"""Share that a table may take. Modelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUses:
    """What a program does with tables of a shape.

    Attributes:
        looks_up: Whether it gathers their rows.
        updates: Whether it scatters to them.
        in_groups: Whether groups of look-ups may be worked on apart: updates that overwrite are in
            one group.
    """

    looks_up: bool = True
    updates: bool = False
    in_groups: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan(TableSplit):
    """How a table is split over tiles; tiles of a group are neighbours in columns.

    Attributes:
        row_parts: Parts of the rows.
        column_parts: Parts of each row.
        lookup_parts: Groups of look-ups.
    """

    row_parts: int
    column_parts: int
    lookup_parts: int = 1

    @property
    def tiles(self) -> int:
        """Tiles that work."""
        return self.row_parts * self.column_parts * self.lookup_parts

    @property
    def name(self) -> str:
        """Name of the layout of a table that is no matrix of rows."""
        return f"table {self.row_parts}x{self.column_parts}x{self.lookup_parts}"

    def table_layout(self, shape: TableShape) -> BlockLayout:
        """Returns the blocks of a table; groups share those that all of them read."""
        rows = Axis(extent=shape.rows, parts=self.row_parts)
        return blocks([rows, self._columns(shape)], share=self.lookup_parts)

    def rows_layout(self, shape: TableShape) -> BlockLayout:
        """Returns the blocks of looked-up rows, and of rows to write."""
        parts = min(shape.lookups, self.lookup_parts * self.row_parts)
        rows = Axis(extent=shape.lookups, parts=parts)
        return blocks([rows, self._columns(shape)], order=(1, 0))

    def _columns(self, shape: TableShape) -> Axis:
        return Axis(extent=shape.columns, parts=self.column_parts, grain=shape.column_grain)


@lru_cache(maxsize=1 << 10)
def plan_table(shape: TableShape, uses: TableUses, target: Target) -> TablePlan:
    """Returns the cheapest split of a table that fits; the smallest one if none does.

    Args:
        shape: The table.
        uses: What a program does with it.
        target: The machine.
    """
    splits = _candidates(shape, uses, target)
    table = as_counts(part_of(shape, splits).table_bytes)
    temporary = as_counts(temporary_bytes(shape, splits))
    fits = (temporary <= _TEMPORARY_SHARE * target.tile_bytes) & (
        table <= _TABLE_SHARE * target.tile_bytes
    )
    cycles = as_counts(plan_cycles(shape, splits, uses, target))
    if fits.any():
        best = int(np.lexsort((table + temporary, cycles, ~fits))[0])
    else:
        best = int(np.lexsort((cycles, table + temporary))[0])
    return TablePlan(
        row_parts=int(as_counts(splits.row_parts)[best]),
        column_parts=int(as_counts(splits.column_parts)[best]),
        lookup_parts=int(as_counts(splits.lookup_parts)[best]),
    )


def plan_cycles(shape: TableShape, split: TableSplit, uses: TableUses, target: Target) -> Count:
    """Returns the cycles by which splits are compared.

    Counts the way of the bytes by which a tile's part of the table exceeds an even share: once for
    a look-up, there and back for an update. So little work does not leave a large table on few
    tiles (poplibs: alwaysIncludeBaseRearrangementCost).
    """
    even = ceil_div(shape.rows * shape.columns * shape.element_bytes, target.tiles)
    uneven = np.maximum(0, part_of(shape, split).table_bytes - even)
    spread = exchange.phase_cycles(uneven, target)
    cycles: Count = 0
    if uses.looks_up:
        cycles = cycles + spread + stage_cycles(lookup_stages(shape, split, target), target)
    if uses.updates:
        cycles = cycles + 2 * spread + stage_cycles(update_stages(shape, split, target), target)
    return cycles


def _candidates(shape: TableShape, uses: TableUses, target: Target) -> TableSplit:
    """Returns the splits to try: powers of two, and as many parts as there are tiles left."""
    tiles = target.tiles
    grains = ceil_div(shape.columns, shape.column_grain)
    most_groups = shape.lookups if uses.in_groups else 1
    grid = []
    for columns in _counts(min(grains, tiles)):
        for rows in _counts(min(shape.rows, tiles // columns)):
            for lookups in _counts(min(most_groups, tiles // (columns * rows))):
                grid.append((rows, columns, lookups))
    splits = np.array(grid, dtype=np.int64)
    return TableSplit(row_parts=splits[:, 0], column_parts=splits[:, 1], lookup_parts=splits[:, 2])


def _counts(most: int) -> list[int]:
    """Returns the powers of two up to a number, and the number itself."""
    return sorted({2**exponent for exponent in range(most.bit_length())} | {most})
