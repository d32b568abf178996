"""Places results: even pieces on enough tiles, blocks of a tile, layouts of views."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ipu_tf.compiler.hlo import Array, Type
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.machine.cost import ceil_div
from ipu_tf.machine.dtypes import DTYPE_BITS
from ipu_tf.tile_program.layouts.layout import LINEAR, BlockLayout, Layout
from ipu_tf.tile_program.layouts.placement import Placement

_LEAST_TILE_BYTES = 128
"""Bytes per tile below which a tensor is not spread further: work on fewer bytes costs more to
start than to run (poplibs 3.4 maps tensors linearly with the same minimum)."""

_GRAIN_BYTES = 8
"""Pieces are whole vectors, so that workers load and store 64 bits at a time (as in poplibs)."""


def arrays(type_: Type) -> Iterator[Array]:
    """Yields the arrays of a type, tuples flattened."""
    if isinstance(type_, Array):
        yield type_
        return
    for part in type_.parts:
        yield from arrays(part)


def element_bytes(dtype: str) -> int:
    """Returns the bytes of an element in tile memory."""
    return DTYPE_BITS[dtype] // 8


def spread(array: Array, context: LoweringContext) -> Placement:
    """Returns the default placement of an array: even pieces on the emptiest tiles."""
    tiles = spread_tiles(array.elements, element_bytes(array.dtype), context.target.tiles)
    return on_tiles(array, tiles, context)


def spread_tiles(elements: int, size: int, most: int) -> int:
    """Returns the tiles for so many elements of `size` bytes, at most `most`."""
    tiles = max(1, min(most, ceil_div(elements * size, _LEAST_TILE_BYTES)))
    grain = max(1, _GRAIN_BYTES // max(1, size))
    piece = ceil_div(max(1, ceil_div(elements, tiles)), grain) * grain
    return max(1, ceil_div(elements, piece))


def on_tiles(
    array: Array, tiles: int, context: LoweringContext, *, layout: Layout = LINEAR
) -> Placement:
    """Returns a placement on the emptiest `tiles` tiles (at most one per element).

    A layout of blocks sets the number of tiles itself.
    """
    if isinstance(layout, BlockLayout):
        return _on_tiles_of(layout, array, context)
    size = element_bytes(array.dtype)
    tiles = max(1, min(tiles, array.elements, context.target.tiles))
    first = context.first_tile(tiles)
    return Placement(
        elements=array.elements, element_bytes=size, first_tile=first, tiles=tiles, layout=layout
    )


def _on_tiles_of(layout: BlockLayout, array: Array, context: LoweringContext) -> Placement:
    size = element_bytes(array.dtype)
    first = context.first_tile(layout.tiles)
    return Placement(
        elements=array.elements,
        element_bytes=size,
        first_tile=first,
        tiles=layout.tiles,
        layout=layout,
    )


def like(placement: Placement, array: Array) -> Placement:
    """Returns the placement of an array that is aligned with another placement."""
    return Placement(
        elements=array.elements,
        element_bytes=element_bytes(array.dtype),
        first_tile=placement.first_tile,
        tiles=placement.tiles,
        layout=placement.layout,
    )


def product(extents: Sequence[int]) -> int:
    """Returns the product of extents, at least 1."""
    return max(1, math.prod(extents))
