"""Plans of tables: the split of their rows and columns over tiles.

A tile holds some columns of some rows and visits every looked-up index. More columns per tile mean
longer copies. More parts of the rows mean that results must be collected: only one part holds each
looked-up row. The planner takes the cheapest split, as poplibs' planner of embeddings does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ipu_tf.machine import exchange, vertices
from ipu_tf.machine.cost import ceil_div
from ipu_tf.machine.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan:
    """How a table is split over tiles.

    Attributes:
        row_parts: Parts of the rows.
        column_parts: Parts of each row.
    """

    row_parts: int
    column_parts: int

    @property
    def tiles(self) -> int:
        """Tiles that hold a part."""
        return self.row_parts * self.column_parts

    @property
    def layout(self) -> str:
        """Layout of a table that is split so."""
        return f"table {self.row_parts}x{self.column_parts}"


@lru_cache(maxsize=1 << 10)
def plan_table(*, rows: int, columns: int, lookups: int, dtype: str, target: Target) -> TablePlan:
    """Returns the cheapest split of a table that is looked up and updated.

    Args:
        rows: Rows of the table.
        columns: Elements of a row.
        lookups: Rows that are read, or written, at once.
        dtype: Type of the elements.
        target: The machine.
    """
    row_parts, column_parts = _candidates(rows, columns, target)
    size = vertices.dtype_bytes(dtype)
    share = ceil_div(columns, column_parts)
    found = vertices.multi_slice(share, lookups, dtype, target).cycles
    # Every part of the rows collects the results of its share of the look-ups.
    own_lookups = ceil_div(lookups, row_parts)
    collected = np.where(row_parts > 1, own_lookups * share * size, 0)
    second = vertices.multi_slice(share, own_lookups, dtype, target).cycles
    joined = exchange.phase_cycles(collected, target) + target.sync_cycles + second
    cycles = found + np.where(row_parts > 1, joined, 0)
    tile_bytes = ceil_div(rows, row_parts) * share * size
    # If splits cost the same, take the one with the least memory per tile.
    best = int(np.lexsort((tile_bytes, cycles))[0])
    fits = tile_bytes * 2 <= target.tile_bytes
    if not fits[best] and fits.any():
        best = int(np.lexsort((cycles, ~fits))[0])
    return TablePlan(row_parts=int(row_parts[best]), column_parts=int(column_parts[best]))


def _candidates(rows: int, columns: int, target: Target) -> tuple[np.ndarray, np.ndarray]:
    """Returns the splits to try: powers of two, and one part for every column."""
    row_counts = [2**e for e in range(min(rows, target.tiles).bit_length()) if 2**e <= rows]
    column_counts = [2**e for e in range(min(columns, target.tiles).bit_length())]
    column_counts.append(min(columns, target.tiles))
    grid = np.array(
        [(r, c) for r in row_counts for c in sorted(set(column_counts)) if r * c <= target.tiles],
        dtype=np.int64,
    )
    return grid[:, 0], grid[:, 1]
