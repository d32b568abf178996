"""Supersteps: a sync, an exchange, a computation, one after the other.

Models a step by its slowest tile. Does not model a tile that runs ahead of the sync.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from ipu_tf.base.codec import NOT_IN_FILES
from ipu_tf.machine.tile_figures import TileFigures


class TileWork(Protocol):
    """The share of every tile in a superstep, computed on demand."""

    def figures(self, superstep: Superstep) -> TileFigures:
        """Returns the figures of every tile; they add up to those of the superstep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Superstep:
    """The cost of one superstep, in cycles of the tile clock.

    Attributes:
        name: Its name, such as "gather" or "multiply".
        sync_cycles: Cycles of the synchronisation before it.
        exchange_cycles: Cycles of the exchange, of the tile that takes longest.
        compute_cycles: Cycles of the slowest tile's vertices.
        host_cycles: Cycles that the tiles wait for the host.
        overlapped_cycles: Cycles of a transfer that I/O tiles make beside the work of the others;
            not part of the total.
        ahead_cycles: Cycles in which the host's connection brings its data to the gateway, or takes
            it from there, beside the work of all tiles; not part of the total.
        busy_tile_cycles: Compute cycles summed over the tiles; balance is this over
            `compute_cycles` times the tiles of the chip.
        exchange_bytes: Bytes received, summed over the tiles; of a transfer between tiles and host,
            those sent and received.
        tiles: The figures of every tile, of a superstep read from a file; else None.
        work: The source of the figures of every tile, of a compiled superstep; else None. Neither
            counts in comparisons: the same superstep may run on any tiles.
    """

    name: str
    sync_cycles: int = 0
    exchange_cycles: int = 0
    compute_cycles: int = 0
    host_cycles: int = 0
    overlapped_cycles: int = 0
    ahead_cycles: int = 0
    busy_tile_cycles: int = 0
    exchange_bytes: int = 0
    tiles: TileFigures | None = field(default=None, compare=False, repr=False)
    work: TileWork | None = field(default=None, compare=False, repr=False, metadata=NOT_IN_FILES)

    @property
    def total_cycles(self) -> int:
        """Cycles from its sync to the next."""
        return self.sync_cycles + self.exchange_cycles + self.compute_cycles + self.host_cycles

    @property
    def tile_figures(self) -> TileFigures | None:
        """The figures of every tile; None if they are not known, as in files of version 3."""
        if self.tiles is not None or self.work is None:
            return self.tiles
        return self.work.figures(self)
