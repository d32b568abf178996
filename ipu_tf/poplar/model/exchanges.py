"""Exchanges of a graph on several IPUs: those within chips, and those over links.

Models an exchange between IPUs as a superstep of its own: a sync of all IPUs, the ways on the
chips, then the links, of which no two transfers share one. An element crosses once to each IPU
that wants it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ipu_tf.poplar.model.machine import Machine
from ipu_tf.poplar.model.pieces import TileTraffic, distinct, exchange


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exchange:
    """Pieces on their way between tiles.

    Attributes:
        inside: Those that stay on their chip.
        across: Those that go to other chips; None if there are none.
        moved: Bytes and messages from one IPU to another, by both.
    """

    inside: TileTraffic
    across: TileTraffic | None = None
    moved: Mapping[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    @property
    def parts(self) -> tuple[TileTraffic, ...]:
        """Both."""
        return (self.inside,) if self.across is None else (self.inside, self.across)


def exchange_on(
    machine: Machine,
    source: NDArray[np.int64],
    destination: NDArray[np.int64],
    address: NDArray[np.int64],
    size: NDArray[np.int64],
) -> Exchange:
    """Returns the exchange of pieces that go from tile to tile; those that stay do not count.

    Args:
        machine: The IPUs.
        source: int64[n]: the tile that holds each piece.
        destination: The tile that wants it.
        address: Where it begins, in memory or in the sender's buffer.
        size: Its bytes.
    """
    chip = machine.target.tiles
    crosses = source // chip != destination // chip if machine.ipus > 1 else np.zeros(0, np.bool_)
    if not crosses.any():
        return Exchange(inside=exchange(source, destination, address, size, machine.tiles))
    inside, across = (
        (source[which], destination[which], address[which], size[which])
        for which in (~crosses, crosses)
    )
    return Exchange(
        inside=exchange(*inside, machine.tiles),
        across=exchange(*across, machine.tiles),
        moved=_over_links(machine, *across),
    )


def _over_links(
    machine: Machine,
    source: NDArray[np.int64],
    destination: NDArray[np.int64],
    address: NDArray[np.int64],
    size: NDArray[np.int64],
) -> dict[tuple[int, int], tuple[int, int]]:
    """Returns bytes and messages by the IPUs at both ends; pairs of tiles have one message."""

    def ends(source: NDArray[np.int64], destination: NDArray[np.int64]) -> NDArray[np.int64]:
        return source // machine.target.tiles * machine.ipus + destination // machine.target.tiles

    found, place = np.unique(ends(source, destination), return_inverse=True)
    moved, _ = distinct(place, source, address, size, len(found))
    talks = np.unique(source * machine.tiles + destination)
    talking = ends(talks // machine.tiles, talks % machine.tiles)
    messages = np.bincount(np.searchsorted(found, talking), minlength=len(found))
    each = zip(found.tolist(), moved.tolist(), messages.tolist(), strict=True)
    return {divmod(both, machine.ipus): (size, count) for both, size, count in each}
