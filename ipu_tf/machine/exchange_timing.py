"""Cycles of an exchange phase besides its bytes: distances on the chip and start-up.

Models the chip as columns of islands of tiles on both sides of the exchange. Does not model the
actual tiles of a tensor: patterns assume tiles numbered from 0, or tiles anywhere.

Measured on the GC2 (Jia et al., arXiv 1912.03413, "CIT"); no such measurements of later chips are
published, so they keep the constants in cycles. "fitted" marks constants chosen to meet measured
totals; all others are read off the source.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ipu_tf.machine.timing_check import check_figures

_COLUMN_SPAN_CYCLES = 157 - 59 - 2 * 18
"""From the nearest to the farthest column: CIT 4.1.2, the slowest pair of tiles (98 ns) less the
nearest island's 59 cycles and 18 islands of 2 cycles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeTiming:
    """Cycles of an exchange phase that do not depend on its bytes, and the geometry behind them.

    Attributes:
        columns_per_side: Columns of tiles on each of the two sides of the exchange.
        islands_per_column: Islands of four tiles in a column.
        nearest_cycles: A word to the nearest island of a column.
        island_cycles: More for every island further from the exchange.
        column_cycles: More for every column between sender and receiver.
        turnaround_cycles: More where tiles both send and receive in a phase.
        head_start_cycles: Cycles of the way that a gather hides behind its first words.
        scatter_start_cycles: Start of a scatter of blocks.
        single_word_cycles: More where a scatter sends single words, half a memory access each.
        fan_out_tiles: Receivers that a broadcast reaches without further cost.
        fan_out_cycles: More for a broadcast to more receivers than that.
        far_side_cycles: More for a broadcast that also reaches the other side of the exchange.
        paired_from: Number of receivers from which a broadcast feeds pairs of tiles.
    """

    columns_per_side: int = 8  # CIT figure 2.2
    islands_per_column: int = 19  # CIT figure 2.2: 76 tiles a column, 4 an island
    nearest_cycles: float = 59  # CIT 4.1.2: 37 ns
    island_cycles: float = 2  # CIT 4.1.2: 1.25 ns an island
    column_cycles: float = _COLUMN_SPAN_CYCLES / 7
    turnaround_cycles: float = 13  # fitted: CIT table 4.3, 1,216 transfers, with sync_cycles
    head_start_cycles: float = 34  # fitted: CIT table 4.11, gather = 118 + words with the sync
    scatter_start_cycles: float = 121  # fitted: CIT table 4.14, 215 + words with the sync
    single_word_cycles: float = 74  # fitted: CIT table 4.13, 289 + words with the sync
    fan_out_tiles: int = 16  # CIT table 4.8: no growth up to 16 receivers
    fan_out_cycles: float = 64  # CIT table 4.8: from 16 to 38 receivers
    far_side_cycles: float = 29  # CIT table 4.8: from 608 to 1,216 receivers
    paired_from: int = 4  # CIT table 4.9: 4 B a cycle to 2 receivers, 8 to 4

    def __post_init__(self) -> None:
        check_figures(self, may_be_zero=[entry.name for entry in dataclasses.fields(self)])
        if not (self.columns_per_side and self.islands_per_column):
            raise ValueError(
                "ExchangeTiming needs at least one column and one island a column. Received: "
                f"columns_per_side={self.columns_per_side!r}, "
                f"islands_per_column={self.islands_per_column!r}."
            )

    @property
    def tiles_per_column(self) -> int:
        """Tiles of one column."""
        return 4 * self.islands_per_column

    @property
    def farthest_cycles(self) -> float:
        """A word to the farthest island of the farthest column."""
        return (
            self.nearest_cycles
            + self.island_cycles * (self.islands_per_column - 1)
            + self.column_cycles * (self.columns_per_side - 1)
        )
