"""The work of every tile in a superstep, run-length encoded: most tiles do the same.

Models tiles that take part in an exchange as busy for the whole of it; all others wait, as tiles
with less to compute wait for the slowest one at the next sync.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class TileRuns:
    """A count for every tile of a chip, run-length encoded.

    Attributes:
        values: The count of every run of neighbouring tiles, from tile 0.
        tiles: Number of tiles of every run.
    """

    values: tuple[int, ...]
    tiles: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.values) != len(self.tiles) or min(self.tiles, default=0) < 1:
            raise ValueError(
                "TileRuns needs runs of at least one tile, and a value for each. Received: "
                f"{len(self.values)} values, runs of {list(self.tiles[:8])} tiles."
            )

    @classmethod
    def of(cls, counts: NDArray[np.int64]) -> TileRuns:
        """Returns the runs of int64[tiles]."""
        begins = np.flatnonzero(np.diff(counts, prepend=counts[:1] - 1))
        tiles = np.diff(np.append(begins, len(counts)))
        return cls(values=tuple(counts[begins].tolist()), tiles=tuple(tiles.tolist()))

    @property
    def counts(self) -> NDArray[np.int64]:
        """The count of every tile, int64[tiles]."""
        return np.repeat(np.array(self.values, np.int64), self.tiles)

    @property
    def total(self) -> int:
        """The sum over all tiles."""
        return sum(value * tiles for value, tiles in zip(self.values, self.tiles, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class TileFigures:
    """The work of every tile in one superstep.

    Attributes:
        compute_cycles: Cycles of its vertices.
        received_bytes: Bytes that it receives from other tiles, or from the host.
        sent_bytes: Bytes that it sends, each once however many tiles listen.
        sync_wait_cycles: Cycles in which it waits for other tiles: during an exchange in which it
            takes no part, and for slower vertices. The cycles of the sync itself, and those of the
            host, come on top for all tiles.
    """

    compute_cycles: TileRuns
    received_bytes: TileRuns
    sent_bytes: TileRuns
    sync_wait_cycles: TileRuns

    @classmethod
    def of(
        cls,
        *,
        compute: NDArray[np.int64],
        received_bytes: NDArray[np.int64],
        sent_bytes: NDArray[np.int64],
        compute_cycles: int,
        exchange_cycles: int,
    ) -> TileFigures:
        """Returns the figures of tiles, and the cycles for which each of them waits.

        Args:
            compute: int64[tiles]: compute cycles.
            received_bytes: int64[tiles]: bytes that tiles receive.
            sent_bytes: int64[tiles]: bytes that tiles send.
            compute_cycles: Compute cycles of the superstep: those of its slowest tile.
            exchange_cycles: Cycles of its exchange.
        """
        idle = (received_bytes == 0) & (sent_bytes == 0)
        wait_cycles = np.maximum(0, compute_cycles - compute) + idle * exchange_cycles
        return cls(
            compute_cycles=TileRuns.of(compute),
            received_bytes=TileRuns.of(received_bytes),
            sent_bytes=TileRuns.of(sent_bytes),
            sync_wait_cycles=TileRuns.of(wait_cycles),
        )
