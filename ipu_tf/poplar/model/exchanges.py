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
from ipu_tf.poplar.model.pieces import TileTraffic, Transfers, distinct, exchange


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exchange:
    """Pieces on their way between tiles.

    Attributes:
        inside: Those that stay on their chip.
        across: Those that go to other chips; None if there are none.
        link_traffic: Bytes and messages from one IPU to another, by both.
    """

    inside: TileTraffic
    across: TileTraffic | None = None
    link_traffic: Mapping[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    @property
    def parts(self) -> tuple[TileTraffic, ...]:
        """Both."""
        return (self.inside,) if self.across is None else (self.inside, self.across)


def exchange_on(machine: Machine, transfers: Transfers) -> Exchange:
    """Returns the exchange of transfers; those that stay on their tile do not count.

    Args:
        machine: The IPUs.
        transfers: The transfers between its tiles.
    """
    chip = machine.target.tiles
    crosses = transfers.source // chip != transfers.destination // chip
    if not crosses.any():
        return Exchange(inside=exchange(transfers, machine.tiles))
    across = transfers[crosses]
    return Exchange(
        inside=exchange(transfers[~crosses], machine.tiles),
        across=exchange(across, machine.tiles),
        link_traffic=_over_links(machine, across),
    )


def _over_links(machine: Machine, transfers: Transfers) -> dict[tuple[int, int], tuple[int, int]]:
    """Returns bytes and messages by the IPUs at both ends; pairs of tiles have one message."""

    def ends(source: NDArray[np.int64], destination: NDArray[np.int64]) -> NDArray[np.int64]:
        return source // machine.target.tiles * machine.ipus + destination // machine.target.tiles

    pairs, place = np.unique(ends(transfers.source, transfers.destination), return_inverse=True)
    pair_bytes, _ = distinct(transfers, place, len(pairs))
    talks = np.unique(transfers.source * machine.tiles + transfers.destination)
    talking = ends(talks // machine.tiles, talks % machine.tiles)
    messages = np.bincount(np.searchsorted(pairs, talking), minlength=len(pairs))
    each = zip(pairs.tolist(), pair_bytes.tolist(), messages.tolist(), strict=True)
    return {divmod(both, machine.ipus): (size, count) for both, size, count in each}
