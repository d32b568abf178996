"""Supersteps: a sync, an exchange, a computation, one after the other.

Models a step by its slowest tile. Does not model a tile that runs ahead of the sync.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Superstep:
    """The cost of one superstep, in cycles of the tile clock.

    Attributes:
        name: Its name, such as "gather" or "multiply".
        sync_cycles: Cycles of the synchronisation before it.
        exchange_cycles: Cycles of the exchange, of the tile that takes longest.
        compute_cycles: Cycles of the slowest tile's vertices.
        host_cycles: Cycles that the tiles wait for the host.
        busy_tile_cycles: Compute cycles summed over the tiles; balance is this over
            `compute_cycles` times the tiles of the chip.
        exchange_bytes: Bytes received, summed over the tiles.
    """

    name: str
    sync_cycles: int = 0
    exchange_cycles: int = 0
    compute_cycles: int = 0
    host_cycles: int = 0
    busy_tile_cycles: int = 0
    exchange_bytes: int = 0

    @property
    def total_cycles(self) -> int:
        """Cycles from its sync to the next."""
        return self.sync_cycles + self.exchange_cycles + self.compute_cycles + self.host_cycles
