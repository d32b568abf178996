"""Pieces of memory on their way between tiles: how many bytes and messages each tile has.

An element that several vertices of a tile read arrives once; one that several tiles read leaves
once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ipu_tf.poplar.model.graph import Stretches
from ipu_tf.tile_program.traffic import Traffic

_TILE_SHIFT = 1 << 40
"""More than the addresses of a graph on any system, so that address and tile make one number."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TileMap:
    """The tile of every address.

    Attributes:
        mapped: Stretches on one tile, by address.
        tile: The tile of each.
    """

    mapped: Stretches
    tile: NDArray[np.int64]

    def pieces(self, stretches: Stretches) -> Pieces:
        """Returns stretches, cut where the tile changes."""
        begin, size = stretches.address, stretches.bytes
        first = np.searchsorted(self.mapped.address, begin, "right") - 1
        last = np.searchsorted(self.mapped.address, begin + np.maximum(size, 1) - 1, "right") - 1
        cuts = last - first + 1
        of = np.repeat(np.arange(len(begin)), cuts)
        place = np.arange(len(of)) - np.repeat(np.cumsum(cuts) - cuts, cuts) + first[of]
        start = np.maximum(begin[of], self.mapped.address[place])
        end = np.minimum(
            begin[of] + size[of], self.mapped.address[place] + self.mapped.bytes[place]
        )
        return Pieces(of=of, address=start, bytes=end - start, tile=self.tile[place])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pieces:
    """Parts of stretches that lie on one tile.

    Attributes:
        of: int64[n]: the stretch that each belongs to.
        address: Where it begins.
        bytes: Its length.
        tile: The tile that holds it.
    """

    of: NDArray[np.int64]
    address: NDArray[np.int64]
    bytes: NDArray[np.int64]
    tile: NDArray[np.int64]

    def __getitem__(self, places: NDArray[np.bool_] | NDArray[np.int64]) -> Pieces:
        """Returns some of them."""
        return Pieces(
            of=self.of[places],
            address=self.address[places],
            bytes=self.bytes[places],
            tile=self.tile[places],
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Transfers:
    """Pieces on their way between tiles.

    Attributes:
        source: int64[n]: the tile that holds each piece.
        destination: The tile that wants it.
        address: Where it begins, in memory or in the sender's buffer.
        bytes: Its length.
    """

    source: NDArray[np.int64]
    destination: NDArray[np.int64]
    address: NDArray[np.int64]
    bytes: NDArray[np.int64]

    def __getitem__(self, places: NDArray[np.bool_]) -> Transfers:
        """Returns some of them."""
        return Transfers(
            source=self.source[places],
            destination=self.destination[places],
            address=self.address[places],
            bytes=self.bytes[places],
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TileTraffic:
    """An exchange, tile by tile.

    Attributes:
        received: int64[tiles]: bytes that each tile receives.
        sent: Bytes that each sends, each once however many tiles listen.
        messages_in: Messages that each receives.
        messages_out: Messages that each sends.
    """

    received: NDArray[np.int64]
    sent: NDArray[np.int64]
    messages_in: NDArray[np.int64]
    messages_out: NDArray[np.int64]

    @property
    def traffic(self) -> Traffic:
        """The busiest tiles of the exchange."""
        return Traffic(
            received_bytes=int(self.received.max(initial=0)),
            sent_bytes=int(self.sent.max(initial=0)),
            total_bytes=int(self.received.sum()),
            received=int(self.messages_in.max(initial=0)),
            sent=int(self.messages_out.max(initial=0)),
        )


def exchange(transfers: Transfers, tiles: int) -> TileTraffic:
    """Returns the traffic of transfers; those that stay on their tile do not count.

    Args:
        transfers: The transfers.
        tiles: Tiles of all chips.
    """
    messages = transfers[transfers.source != transfers.destination]
    received_bytes, messages_in = distinct(messages, messages.destination, tiles)
    sent_bytes, messages_out = distinct(messages, messages.source, tiles)
    return TileTraffic(
        received=received_bytes, sent=sent_bytes, messages_in=messages_in, messages_out=messages_out
    )


def distinct(
    transfers: Transfers, place: NDArray[np.int64], places: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the distinct bytes of each place, and the runs of neighbours from one source.

    Args:
        transfers: The transfers.
        place: int64[n]: the tile, or other end, that each counts for.
        places: Number of tiles, or ends.
    """
    if not len(place):
        return np.zeros(places, np.int64), np.zeros(places, np.int64)
    begin = place * _TILE_SHIFT + transfers.address
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], (begin + transfers.bytes)[order]
    covered_end = np.concatenate(([-1], np.maximum.accumulate(end)[:-1]))
    fresh = np.maximum(0, end - np.maximum(begin, covered_end))
    origin = transfers.source[order]
    starts = (begin > covered_end) | (origin != np.concatenate(([-1], origin[:-1])))
    ordered_places = place[order]
    place_bytes = np.bincount(ordered_places, fresh, places)
    return place_bytes.astype(np.int64), np.bincount(
        ordered_places[starts & (fresh > 0)], minlength=places
    )
