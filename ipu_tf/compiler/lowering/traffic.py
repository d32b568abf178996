"""What an exchange between two placements moves.

Models the tile that receives most and the tile that sends most. A tile sends a word once however
many tiles listen. Does not model that narrow elements (below a word) in scattered places have to
be packed and unpacked on their tiles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from ipu_tf.compiler.placement import Placement
from ipu_tf.machine.cost import ceil_div


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Bytes and messages of one exchange. Adds up with `+`.

    Attributes:
        received_bytes: Bytes that the tile that receives most gets.
        sent_bytes: Bytes that the tile that sends most sends.
        total_bytes: Bytes received by all tiles together.
        messages: Runs of bytes that the busiest tile sends, or receives where those are more.
    """

    received_bytes: int = 0
    sent_bytes: int = 0
    total_bytes: int = 0
    messages: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            received_bytes=self.received_bytes + other.received_bytes,
            sent_bytes=self.sent_bytes + other.sent_bytes,
            total_bytes=self.total_bytes + other.total_bytes,
            messages=self.messages + other.messages,
        )


NOTHING = Traffic()


@lru_cache(maxsize=1 << 14)
def move(source: Placement, destination: Placement) -> Traffic:
    """Returns the traffic that brings every element of a tensor to where another lies.

    Args:
        source: Where it lies, or would lie: a view with repeated elements sends the distinct ones.
        destination: Where its elements have to be.
    """
    if source.repeats is not None:
        return _spread_repeats(source, source.repeats, destination)
    if source.aligned(destination) or source.elements == 0:
        return NOTHING
    if _on_one_tile(source, destination):
        return NOTHING
    size = source.element_bytes
    return Traffic(
        received_bytes=destination.tile_elements * size,
        sent_bytes=source.tile_elements * size,
        total_bytes=source.bytes,
        messages=_messages(source, destination),
    )


def to_all(source: Placement, tiles: int) -> Traffic:
    """Returns the traffic that gives each of `tiles` tiles all of a tensor."""
    if tiles <= 1 and source.tiles == 1:
        return NOTHING
    origin = source.repeats or source
    return Traffic(
        received_bytes=origin.bytes,
        sent_bytes=origin.tile_elements * origin.element_bytes,
        total_bytes=origin.bytes * tiles,
        messages=origin.tiles,
    )


def collect(source: Placement, *, received_elements: int, tiles: int) -> Traffic:
    """Returns the traffic in which tiles pick up elements from wherever they lie.

    Args:
        source: Where they lie.
        received_elements: Elements that each receiving tile gets.
        tiles: Tiles that receive.
    """
    origin = source.repeats or source
    if received_elements <= 0 or (tiles == 1 and origin.tiles == 1):
        return NOTHING
    size = origin.element_bytes
    everything = received_elements * tiles
    sent = min(origin.tile_elements, ceil_div(everything, origin.tiles))
    arriving = _pieces(origin, received_elements)
    # What all tiles want is sent once, to all of them.
    leaving = 1 if received_elements >= origin.elements else _crossing(tiles)
    return Traffic(
        received_bytes=received_elements * size,
        sent_bytes=sent * size,
        total_bytes=everything * size,
        messages=max(min(arriving, received_elements), min(leaving, sent)),
    )


def _spread_repeats(view: Placement, distinct: Placement, destination: Placement) -> Traffic:
    """Returns the traffic that gives each tile of a destination the distinct elements it needs."""
    if _on_one_tile(distinct, destination):
        return NOTHING
    needed = min(distinct.elements, ceil_div(destination.tile_elements, view.run))
    return collect(distinct, received_elements=needed, tiles=destination.tiles)


def _on_one_tile(source: Placement, destination: Placement) -> bool:
    return (
        source.tiles == 1 and destination.tiles == 1 and source.first_tile == destination.first_tile
    )


def _messages(source: Placement, destination: Placement) -> int:
    """Returns the runs that a tile sends or receives, at most one an element."""
    if source.layout == destination.layout:
        arriving = ceil_div(source.tiles, destination.tiles) + 1
        leaving = ceil_div(destination.tiles, source.tiles) + 1
    else:
        arriving, leaving = _crossing(source.tiles), _crossing(destination.tiles)
    return max(min(arriving, destination.tile_elements), min(leaving, source.tile_elements))


def _pieces(origin: Placement, elements: int) -> int:
    """Returns the tiles that so many elements come from."""
    if origin.layout == "linear":
        return min(origin.tiles, ceil_div(elements, max(1, origin.tile_elements)) + 1)
    return _crossing(origin.tiles)


def _crossing(tiles: int) -> int:
    """Returns how many blocks of one layout meet a block of another.

    Modelled: tensors are cut along several dimensions, and of two layouts about half of the cuts
    are the same, so a block meets as many others as the square root of the tiles.
    """
    return math.isqrt(max(0, tiles - 1)) + 1
