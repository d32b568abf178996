"""Counts the messages of an exchange: pieces of one layout that overlap a piece of another.

Exact where both are cut along the same axes and tiles do not share blocks. Even pieces of the
row-major order against blocks count as runs; of layouts that only have a name, only the tiles
are known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from ipu_tf.machine.cost import ceil_div
from ipu_tf.machine.vertices.broadcasts import FEATURE_GROUP
from ipu_tf.tile_program.layouts.layout import Axis, BlockLayout, overlaps
from ipu_tf.tile_program.layouts.layout_views import common_dims, split
from ipu_tf.tile_program.layouts.placement import Placement

_CACHED = 1 << 14


@lru_cache(maxsize=_CACHED)
def piece_overlaps(source: BlockLayout, destination: BlockLayout) -> int:
    """Returns how many tiles hold the elements of another layout's fullest tile.

    Args:
        source: The current layout.
        destination: The wanted layout of the same elements.
    """
    messages = _along_axes(source, destination)
    if messages is None:
        messages = _across_axes(source, destination)
    return max(1, min(messages, source.tiles, destination.tile_elements))


def run_overlaps(piece: int, dims: Sequence[int], block: Sequence[int]) -> int:
    """Returns how many even pieces of the row-major order a block overlaps.

    Modelled: runs begin anywhere in a piece, unless both fit into each other.

    Args:
        piece: Elements of a piece.
        dims: Extents of the tensor.
        block: Extents of the block.
    """
    runs, span, stride, outer, whole = 1, 1, 1, 1, True
    for extent, part in zip(reversed(dims), reversed(block), strict=True):
        # Runs closer than the length of a piece overlap the same pieces as everything between them.
        if span == stride or stride < piece:
            whole &= span == stride
            span += (part - 1) * stride
        else:
            outer = outer if runs > 1 else stride
            runs *= part
        stride *= extent
    shorter, longer = sorted((span, piece))
    if whole and longer % shorter == 0 and (runs == 1 or outer % longer == 0):
        messages = runs * ceil_div(span, piece)
    else:
        messages = runs + ceil_div(runs * (span - 1), piece)
    return min(messages, ceil_div(stride, piece))


def unknown_overlaps(tiles: int) -> int:
    """Returns how many blocks of a layout overlap a block of another, unknown layout.

    Modelled: tensors are cut along several dimensions, and two layouts share about half of their
    cuts, so a block overlaps as many others as the square root of the tiles.
    """
    return math.isqrt(max(0, tiles - 1)) + 1


def common_run(source: Placement, destination: Placement) -> int:
    """Returns the elements that lie side by side on tiles of both placements of a tensor.

    Where the placements cut rows in different parts, it is the unit of both cuts: a part of an odd
    number of elements leaves every other row of some tile at an odd place. Of layouts that only
    have a name nothing is known; all elements of a tile then count as a run.
    """
    one, other = source.cut, destination.cut
    if one is None or other is None:
        return destination.tile_elements
    dims = common_dims(one, other)
    parts = None if dims is None else (split(one, dims), split(other, dims))
    if dims is None or parts is None or parts[0] is None or parts[1] is None:
        return min(_own_run(one), _own_run(other))
    run = 1
    pairs = zip(parts[0][0].axes, parts[1][0].axes, strict=True)
    for axis, along in reversed(list(pairs)):
        own_extent = min(axis.part_elements, along.part_elements)
        if own_extent < axis.extent:
            is_alike = (axis.parts, axis.grain) == (along.parts, along.grain)
            return run * (own_extent if is_alike else math.gcd(axis.unit, along.unit))
        run *= own_extent
    return run


def _own_run(layout: BlockLayout) -> int:
    """Returns the elements of a layout that lie side by side on a tile.

    Rows that are cut come in units of the cut.
    """
    run = 1
    for axis in reversed(layout.axes):
        if axis.part_elements < axis.extent:
            return run * (axis.unit if len(layout.axes) > 1 else axis.part_elements)
        run *= axis.part_elements
    return run


def held_extents(placement: Placement, dims: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the extents of the block that covers the elements of the fullest tile.

    Tiles that share a block have pieces of it, a group of features after the other.

    Args:
        placement: The placement of a tensor.
        dims: Its extents.
    """
    blocks = placement.cut
    pieces = split(blocks, dims) if blocks is not None else None
    if blocks is None or pieces is None:
        return row_major_block(dims, placement.tile_elements)
    apart, owners = pieces
    extents = [1] * len(dims)
    for axis, owner in zip(apart.axes, owners, strict=True):
        extents[owner] *= axis.most_elements
    if blocks.share > 1:
        piece = ceil_div(math.prod(extents), blocks.share)
        return _grouped_block(extents, piece, _feature_dims(dims, blocks.axes[-1].extent))
    return tuple(extents)


def _feature_dims(dims: Sequence[int], features: int) -> int:
    """Returns how many of the innermost dimensions are those of so many features; at least 1."""
    count, extent = 1, dims[-1]
    while extent < features and count < len(dims):
        count += 1
        extent *= dims[-count]
    return count if extent == features else 1


def _grouped_block(extents: Sequence[int], elements: int, inner: int) -> tuple[int, ...]:
    """Returns the extents of a piece of a block whose groups of features follow one another.

    Args:
        extents: Extents of the block.
        elements: Elements of the piece.
        inner: How many of the innermost dimensions are the features.
    """
    outer, features = extents[:-inner], extents[-inner:]
    positions = math.prod(outer)
    group = min(FEATURE_GROUP, math.prod(features))
    if elements <= positions * group:
        outer_block, wide = row_major_block(outer, ceil_div(elements, group)), min(group, elements)
    else:
        outer_block, wide = tuple(outer), ceil_div(elements, positions * group) * group
    return (*outer_block, *row_major_block(features, wide))


def row_major_block(dims: Sequence[int], elements: int) -> tuple[int, ...]:
    """Returns the extents of the block that a run of `elements` in row-major order covers.

    A run may start within a row; the block is the one that an aligned run of that length covers.
    """
    block = []
    for extent in reversed(dims):
        here = min(extent, max(1, elements))
        block.append(here)
        elements = ceil_div(elements, max(1, extent))
    return tuple(reversed(block))


def _along_axes(source: BlockLayout, destination: BlockLayout) -> int | None:
    """Returns the overlapping pieces of layouts that can be cut along the same axes; else None."""
    dims = common_dims(source, destination)
    if dims is None:
        return None
    one, other = split(source, dims), split(destination, dims)
    if one is None or other is None:
        return None
    theirs = _piece_extents(other[0])
    messages = [
        overlaps(axis, along)
        if part == along.most_elements
        else min(_coordinate_overlaps(axis, part), axis.coordinates)
        for axis, along, part in zip(one[0].axes, other[0].axes, theirs, strict=True)
    ]
    common = [
        min(axis.most_elements, ceil_div(part, count))
        for axis, part, count in zip(one[0].axes, theirs, messages, strict=True)
    ]
    return math.prod(messages) * _share_overlaps(one[0], common)


def _across_axes(source: BlockLayout, destination: BlockLayout) -> int:
    """Returns the overlapping pieces if one layout is cut across rows of the other."""
    if len(source.axes) == 1:
        dims = [axis.extent for axis in destination.axes]
        return run_overlaps(source.tile_elements, dims, _piece_extents(destination))
    if len(destination.axes) == 1:
        extents = row_major_block([axis.extent for axis in source.axes], destination.tile_elements)
        messages = [
            _coordinate_overlaps(axis, part)
            for axis, part in zip(source.axes, extents, strict=True)
        ]
        common = [
            min(axis.most_elements, part) for axis, part in zip(source.axes, extents, strict=True)
        ]
        return math.prod(messages) * _share_overlaps(source, common)
    return unknown_overlaps(source.tiles)


def _piece_extents(layout: BlockLayout) -> tuple[int, ...]:
    """Returns the extents, axis by axis, that cover the piece of the fullest tile."""
    extents = tuple(axis.most_elements for axis in layout.axes)
    if layout.share == 1:
        return extents
    return row_major_block(extents, ceil_div(math.prod(extents), layout.share))


def _share_overlaps(layout: BlockLayout, extents: Sequence[int]) -> int:
    """Returns how many of the tiles that share a block hold some part of it.

    Args:
        layout: The layout.
        extents: Extents of the part.
    """
    if layout.share == 1:
        return 1
    block = [axis.most_elements for axis in layout.axes]
    piece = ceil_div(math.prod(block), layout.share)
    return min(layout.share, run_overlaps(piece, block, extents))


def _coordinate_overlaps(axis: Axis, elements: int) -> int:
    """Returns the most coordinates that a run of elements along an axis overlaps."""
    if elements >= axis.extent:
        return axis.coordinates
    return min(axis.coordinates, ceil_div(elements - 1, axis.part_elements) + 1)
