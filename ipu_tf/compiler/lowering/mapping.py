"""Where results lie: even pieces on enough tiles, blocks of a tile, layouts of views."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ipu_tf.compiler.hlo import Array, Type
from ipu_tf.compiler.hlo.module import DTYPE_BITS
from ipu_tf.compiler.lowering.lowered import LoweringContext
from ipu_tf.compiler.placement import Placement
from ipu_tf.machine.cost import ceil_div

_LEAST_TILE_BYTES = 128
"""Bytes below which a tensor is not spread further: what a tile does with fewer costs more to
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
    """Returns where an array lies that nobody has wishes for: even pieces on the emptiest tiles."""
    tiles = spread_tiles(array.elements, element_bytes(array.dtype), context.target.tiles)
    return on_tiles(array, tiles, context)


def spread_tiles(elements: int, size: int, most: int) -> int:
    """Returns the tiles for so many elements of `size` bytes, at most `most`."""
    tiles = max(1, min(most, ceil_div(elements * size, _LEAST_TILE_BYTES)))
    grain = max(1, _GRAIN_BYTES // max(1, size))
    piece = ceil_div(max(1, ceil_div(elements, tiles)), grain) * grain
    return max(1, ceil_div(elements, piece))


def on_tiles(
    array: Array, tiles: int, context: LoweringContext, *, layout: str = "linear"
) -> Placement:
    """Returns a placement on so many tiles (but at most one for an element), the emptiest ones."""
    size = element_bytes(array.dtype)
    tiles = max(1, min(tiles, array.elements, context.target.tiles))
    first = context.first_tile(tiles, ceil_div(array.elements, tiles) * size)
    return Placement(
        elements=array.elements, element_bytes=size, first_tile=first, tiles=tiles, layout=layout
    )


def like(placement: Placement, array: Array) -> Placement:
    """Returns where an array lies that meets a placement element by element."""
    return Placement(
        elements=array.elements,
        element_bytes=element_bytes(array.dtype),
        first_tile=placement.first_tile,
        tiles=placement.tiles,
        layout=placement.layout,
    )


def row_major_block(dims: Sequence[int], elements: int) -> tuple[int, ...]:
    """Returns the extents of the block that a run of `elements` in row-major order covers.

    A run may start within a row, so a block is what an aligned run of that length covers.
    """
    block = []
    for extent in reversed(dims):
        here = min(extent, max(1, elements))
        block.append(here)
        elements = ceil_div(elements, max(1, extent))
    return tuple(reversed(block))


def transposed_layout(layout: str, dims: Sequence[int], permutation: Sequence[int]) -> str:
    """Returns the layout of a transposed view, in the row-major order of the result.

    Transposing there and back gives the layout again; dimensions of one element do not count.
    """
    kept = [axis for axis in permutation if dims[axis] != 1]
    order = sorted(kept)
    if kept == order:
        return layout
    ranks = [order.index(axis) for axis in kept]
    back = [ranks.index(axis) for axis in range(len(ranks))]
    before = "x".join(str(dims[axis]) for axis in order)
    after = "x".join(str(dims[axis]) for axis in kept)
    undone = f"|transposed {after}:{back}"
    if layout.endswith(undone):
        return layout.removesuffix(undone)
    return f"{layout}|transposed {before}:{ranks}"


def product(extents: Sequence[int]) -> int:
    """Returns the product of extents, at least 1."""
    return max(1, math.prod(extents))
