"""Layouts of views: split at the borders of dimensions, transposed, reversed, reduced, resized."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

from ipu_tf.tile_program.layouts.layout import Axis, BlockLayout
from ipu_tf.tile_program.layouts.layout_form import blocks

_CACHED = 1 << 14


@lru_cache(maxsize=_CACHED)
def split(layout: BlockLayout, dims: tuple[int, ...]) -> tuple[BlockLayout, tuple[int, ...]] | None:
    """Returns a layout with an axis border at every border of some dimensions, if possible.

    Args:
        layout: The blocks.
        dims: Extents with the same number of elements.

    Returns:
        The same blocks, and the dimension of every axis; None if parts end within rows.
    """
    axes: list[Axis] = []
    owners: list[int] = []
    order_of: dict[int, list[int]] = {}
    dims_in_order = [(n, d) for n, d in enumerate(dims) if d > 1]
    open_extent, owner = 1, 0
    for number, axis in enumerate(layout.axes):
        pieces = order_of.setdefault(number, [])
        remainder: Axis | None = axis
        while remainder is not None:
            if open_extent == 1:
                owner, open_extent = dims_in_order.pop(0)
            if open_extent % remainder.extent == 0:
                outer, inner = remainder, None
            elif remainder.extent % open_extent == 0:
                divided = _divided(remainder, open_extent)
                if divided is None:
                    return None
                outer, inner = divided
            else:
                return None
            open_extent //= outer.extent
            pieces.append(len(axes))
            axes.append(outer)
            owners.append(owner)
            remainder = inner
    order = [place for number in layout.order for place in order_of[number]]
    cut_places = tuple(place for place in order if axes[place].coordinates > 1)
    return BlockLayout(axes=tuple(axes), order=cut_places, share=layout.share), tuple(owners)


@lru_cache(maxsize=_CACHED)
def common_dims(one: BlockLayout, other: BlockLayout) -> tuple[int, ...] | None:
    """Returns dimensions whose borders are those of both layouts; None if there are none."""
    borders = sorted({*_suffixes(one), *_suffixes(other)}, reverse=True)
    dims = []
    for outer, inner in itertools.pairwise([*borders, 1]):
        if outer % inner:
            return None
        dims.append(outer // inner)
    return tuple(dims)


def transposed(
    layout: BlockLayout, dims: Sequence[int], permutation: Sequence[int]
) -> BlockLayout | None:
    """Returns the layout of a transposed view in the row-major order of the result.

    Where several tiles share a block, each has a piece of the transposed block in that block's
    own order: the borders of the pieces are right, their tiles are not. None if the view has no
    blocks, because parts end within rows.
    """
    pieces = split(layout, tuple(dims))
    if pieces is None:
        return None
    apart, owners = pieces
    places = [place for axis in permutation for place, owner in enumerate(owners) if owner == axis]
    axes = [apart.axes[place] for place in places]
    return blocks(axes, order=_renumbered(apart, places), share=layout.share)


def keeps_reversed(layout: BlockLayout, dims: Sequence[int], reversed_: Sequence[int]) -> bool:
    """Returns whether every element stays on its tile if dimensions are reversed."""
    pieces = split(layout, tuple(dims))
    if pieces is None or layout.share > 1:
        return False
    apart, owners = pieces
    return all(
        axis.coordinates == 1
        for axis, owner in zip(apart.axes, owners, strict=True)
        if owner in reversed_
    )


def reduced(
    layout: BlockLayout, dims: Sequence[int], reduced_: Sequence[int]
) -> BlockLayout | None:
    """Returns the layout without some dimensions; None if they are cut, or have no borders."""
    pieces = split(layout, tuple(dims))
    if pieces is None or layout.share > 1:
        return None
    apart, owners = pieces
    places = [place for place, owner in enumerate(owners) if owner not in reduced_]
    if any(place not in places for place in apart.order):
        return None
    return blocks([apart.axes[place] for place in places], order=_renumbered(apart, places))


def resized(layout: BlockLayout, dims: Sequence[int], extents: Sequence[int]) -> BlockLayout | None:
    """Returns the layout of a tensor of other extents, with its dimensions cut into as many parts.

    Args:
        layout: A layout.
        dims: Extents of the tensor with that layout.
        extents: Extents of the other tensor, as many.

    Returns:
        The layout; None if a dimension of another extent is cut in several ways.
    """
    pieces = split(layout, tuple(dims))
    if pieces is None or layout.share > 1 or len(dims) != len(extents):
        return None
    apart, owners = pieces
    axes = []
    for axis, owner in zip(apart.axes, owners, strict=True):
        if extents[owner] == dims[owner]:
            axes.append(axis)
        elif owners.count(owner) > 1 or axis.steps > 1:
            return None
        else:
            extent = extents[owner]
            axes.append(Axis(extent=extent, parts=min(axis.parts, extent)))
    if math.prod(axis.extent for axis in axes) != math.prod(extents):
        return None
    return blocks(axes, order=_renumbered(apart, range(len(axes))))


def _renumbered(layout: BlockLayout, places: Sequence[int]) -> list[int]:
    """Returns the order of some axes of a layout, cut ones first, as numbers among them."""
    cut_places = [place for place in layout.order if place in places]
    uncut_places = [place for place in places if place not in cut_places]
    return [list(places).index(place) for place in (*cut_places, *uncut_places)]


def _divided(axis: Axis, outer: int) -> tuple[Axis, Axis] | None:
    """Returns an axis as two, the first of extent `outer`; None if parts end within rows."""
    row = axis.extent // outer
    if axis.parts == 1:
        return Axis(extent=outer), Axis(extent=row)
    if axis.grain % row == 0:
        outer_axis = Axis(extent=outer, parts=axis.parts, grain=axis.grain // row, steps=axis.steps)
        return outer_axis, Axis(extent=row)
    if not axis.is_even or axis.grain > 1:
        return None
    if axis.part_elements % row == 0:
        return Axis(extent=outer, parts=axis.parts, steps=axis.steps), Axis(extent=row)
    if axis.steps == 1 and row % axis.part_elements == 0:
        return (
            Axis(extent=outer, parts=outer),
            Axis(extent=row, parts=row // axis.part_elements),
        )
    return None


def _suffixes(layout: BlockLayout) -> Iterator[int]:
    """Yields the elements from every axis border to the end."""
    elements = 1
    for axis in reversed(layout.axes):
        elements *= axis.extent
        yield elements
