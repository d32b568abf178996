"""The traffic of an exchange between two placements.

Models the tile that receives most and the tile that sends most. A tile sends a word once however
many tiles listen, and packs words for the same tiles into one message. A tensor that changes its
layout is packed and unpacked on the tiles; few elements that many tiles read are not.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from functools import lru_cache

from ipu_tf.machine import exchange, vertices
from ipu_tf.machine.cost import ceil_div
from ipu_tf.tile_program.layouts.layout import BlockLayout
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.messages import (
    common_run,
    held_extents,
    piece_overlaps,
    run_overlaps,
    unknown_overlaps,
)
from ipu_tf.tile_program.tile_work import TensorRoute


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Bytes and messages of one exchange. Adds up with `+`.

    Attributes:
        received_bytes: The most bytes that one tile receives.
        sent_bytes: The most bytes that one tile sends.
        total_bytes: Bytes received by all tiles together.
        received: The most messages that one tile receives.
        sent: The most messages that one tile sends.
        rearranged_cycles: Cycles in which a tile packs and unpacks what it moves.
        routes: Where its bytes come from and go to, as far as known.
    """

    received_bytes: int = 0
    sent_bytes: int = 0
    total_bytes: int = 0
    received: int = 0
    sent: int = 0
    rearranged_cycles: int = 0
    routes: tuple[TensorRoute, ...] = field(default=(), compare=False, repr=False)

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            received_bytes=self.received_bytes + other.received_bytes,
            sent_bytes=self.sent_bytes + other.sent_bytes,
            total_bytes=self.total_bytes + other.total_bytes,
            received=self.received + other.received,
            sent=self.sent + other.sent,
            rearranged_cycles=self.rearranged_cycles + other.rearranged_cycles,
            routes=self.routes + other.routes,
        )

    def part(self, share: float) -> Traffic:
        """Returns the traffic of a part of every message.

        Args:
            share: The part, above 0 and at most 1.
        """
        return dataclasses.replace(
            self,
            received_bytes=math.ceil(self.received_bytes * share),
            sent_bytes=math.ceil(self.sent_bytes * share),
            total_bytes=math.ceil(self.total_bytes * share),
            rearranged_cycles=math.ceil(self.rearranged_cycles * share),
            routes=tuple(route.part(share) for route in self.routes),
        )

    @property
    def code_bytes(self) -> int:
        """Exchange code of a tile with the most messages and bytes."""
        return _code_bytes(self.received, self.sent, self.sent_bytes)


@lru_cache(maxsize=1 << 14)
def _code_bytes(received: int, sent: int, sent_bytes: int) -> int:
    return int(exchange.exchange_code_bytes(received=received, sent=sent, sent_bytes=sent_bytes))


NOTHING = Traffic()


@lru_cache(maxsize=1 << 14)
def move(source: Placement, destination: Placement) -> Traffic:
    """Returns the traffic that moves every element of a tensor to another placement.

    Args:
        source: Its placement; a view with repeated elements sends the distinct ones.
        destination: The new placement.
    """
    if source.repeats is not None:
        return _spread_repeats(source, source.repeats, destination)
    if source.aligned(destination) or source.elements == 0:
        return NOTHING
    if _on_one_tile(source, destination):
        return NOTHING
    size = source.element_bytes
    received_messages, sent_messages = _messages(source, destination)
    return Traffic(
        received_bytes=destination.tile_elements * size,
        sent_bytes=source.tile_elements * size,
        total_bytes=source.bytes,
        received=received_messages,
        sent=sent_messages,
        rearranged_cycles=_rearranged_cycles(source, destination),
        routes=(_route(source, source.bytes, source.bytes, destination),),
    )


def _rearranged_cycles(source: Placement, destination: Placement) -> int:
    """Returns the cycles in which tiles pack and unpack a tensor, unless it moves in one piece."""
    run, whole = common_run(source, destination), destination.tile_elements
    if run >= whole:
        return 0
    size = source.element_bytes
    return int(vertices.rearranged_cycles(whole * size, run * size))


def to_all(source: Placement, tiles: int) -> Traffic:
    """Returns the traffic that gives each of `tiles` tiles all of a tensor."""
    if tiles <= 1 and source.tiles == 1:
        return NOTHING
    origin = source.repeats or source
    return Traffic(
        received_bytes=origin.bytes,
        sent_bytes=origin.tile_elements * origin.element_bytes,
        total_bytes=origin.bytes * tiles,
        received=origin.tiles,
        sent=1,
        routes=(_route(origin, origin.bytes * tiles, origin.bytes),),
    )


def collect(source: Placement, *, received_elements: int, tiles: int) -> Traffic:
    """Returns the traffic in which tiles fetch elements from any tiles.

    Args:
        source: Their placement.
        received_elements: Elements that each receiving tile gets.
        tiles: Tiles that receive.
    """
    origin = source.repeats or source
    if received_elements <= 0 or (tiles == 1 and origin.tiles == 1):
        return NOTHING
    size = origin.element_bytes
    everything = received_elements * tiles
    sent_messages = min(origin.tile_elements, ceil_div(everything, origin.tiles))
    received_messages = _pieces(origin, received_elements)
    # Elements that all tiles want are sent once, to all of them.
    listeners = 1 if received_elements >= origin.elements else unknown_overlaps(tiles)
    return Traffic(
        received_bytes=received_elements * size,
        sent_bytes=sent_messages * size,
        total_bytes=everything * size,
        received=min(received_messages, received_elements),
        sent=min(listeners, sent_messages),
        routes=(_route(origin, everything * size, min(everything, origin.elements) * size),),
    )


def met_by(source: Placement, blocks: BlockLayout) -> Traffic:
    """Returns the messages that bring blocks to their readers, each sent once.

    Args:
        source: The placement of the elements.
        blocks: The blocks.
    """
    origin = (source.repeats or source).cut
    if origin is None or origin.elements != blocks.elements:
        return Traffic(received=unknown_overlaps(source.tiles), sent=unknown_overlaps(blocks.tiles))
    return Traffic(received=piece_overlaps(origin, blocks), sent=piece_overlaps(blocks, origin))


def _spread_repeats(view: Placement, distinct: Placement, destination: Placement) -> Traffic:
    """Returns the traffic that gives each tile of a destination the distinct elements it needs."""
    if _on_one_tile(distinct, destination):
        return NOTHING
    extents = _wanted_extents(view, destination)
    if extents is None:
        return collect(
            distinct,
            received_elements=min(distinct.elements, destination.tile_elements),
            tiles=destination.tiles,
        )
    dims = [extent for extent, varies in view.pattern if varies]
    block_elements = min(distinct.elements, math.prod(extents))
    size = distinct.element_bytes
    everything = block_elements * destination.tiles
    sent_messages = min(distinct.tile_elements, ceil_div(everything, distinct.tiles))
    if distinct.blocks is not None and len(distinct.blocks.axes) <= 1:
        received_messages = run_overlaps(distinct.tile_elements, dims, extents)
    else:
        received_messages = unknown_overlaps(distinct.tiles)
    return Traffic(
        received_bytes=block_elements * size,
        sent_bytes=sent_messages * size,
        total_bytes=everything * size,
        received=min(received_messages, distinct.tiles, block_elements),
        # A piece is cut where blocks of the destination begin; each cut is sent once.
        sent=min(
            sent_messages,
            ceil_div(distinct.tile_elements, block_elements) + (block_elements < distinct.elements),
        ),
        routes=(
            _route(
                distinct,
                everything * size,
                min(everything, distinct.elements) * size,
                destination,
            ),
        ),
    )


def _route(
    source: Placement,
    received_bytes: int,
    sent_bytes: int,
    destination: Placement | None = None,
) -> TensorRoute:
    return TensorRoute(
        source=source,
        destination=destination,
        received_bytes=received_bytes,
        sent_bytes=sent_bytes,
    )


def _wanted_extents(view: Placement, destination: Placement) -> tuple[int, ...] | None:
    """Returns the extents of the distinct elements that a tile needs, outermost first."""
    dims = tuple(extent for extent, _ in view.pattern)
    if math.prod(dims) != destination.elements:
        return None
    extents = held_extents(destination, dims)
    return tuple(size for size, (_, varies) in zip(extents, view.pattern, strict=True) if varies)


def _on_one_tile(source: Placement, destination: Placement) -> bool:
    return (
        source.tiles == 1 and destination.tiles == 1 and source.first_tile == destination.first_tile
    )


def _messages(source: Placement, destination: Placement) -> tuple[int, int]:
    """Returns the messages that a tile receives and sends, at most one per element."""
    one, other = source.cut, destination.cut
    if one is not None and other is not None:
        return piece_overlaps(one, other), piece_overlaps(other, one)
    received_messages, sent_messages = (
        unknown_overlaps(source.tiles),
        unknown_overlaps(destination.tiles),
    )
    return min(received_messages, destination.tile_elements), min(
        sent_messages, source.tile_elements
    )


def _pieces(origin: Placement, elements: int) -> int:
    """Returns the tiles that so many elements come from."""
    if origin.blocks is not None and len(origin.blocks.axes) <= 1:
        return min(origin.tiles, ceil_div(elements, max(1, origin.tile_elements)) + 1)
    return unknown_overlaps(origin.tiles)
