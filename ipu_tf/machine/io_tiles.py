"""I/O tiles: tiles set aside to move data to and from the host and streaming memory.

They hold two buffers, so that a transfer fills or drains one while the other tiles use the other:
the transfer runs beside their work, and only the exchange between both groups of tiles takes time
of its own. Models transfers in a steady state: neither the first one nor the last one is exposed.
"""

from __future__ import annotations

from ipu_tf.machine import exchange
from ipu_tf.machine.cost import ceil_div
from ipu_tf.machine.target import Target

_BUFFERS = 2
"""Buffers of data that passes: one is filled while the other one is read."""


def exchange_cycles(moved_bytes: int, io_tiles: int, target: Target) -> int:
    """Returns the cycles in which data moves between the I/O tiles and all others.

    Args:
        moved_bytes: Bytes that move, all in one direction.
        io_tiles: Number of I/O tiles.
        target: The chip, with only the tiles that compute.
    """
    busiest = ceil_div(moved_bytes, min(io_tiles, target.tiles))
    return int(exchange.phase_cycles(busiest, target))


def holds(data_bytes: int, io_tiles: int, share: float, target: Target) -> bool:
    """Returns whether I/O tiles have room for two buffers of data.

    Args:
        data_bytes: Bytes of the data, once.
        io_tiles: Number of I/O tiles.
        share: Share of their memory that may hold data; the rest is for code.
        target: The chip.
    """
    return _BUFFERS * data_bytes <= share * io_tiles * target.tile_bytes
