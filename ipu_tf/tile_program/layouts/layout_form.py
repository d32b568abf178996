"""Brings blocks to canonical form: joins axes where nothing is lost, cuts instead of shares."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ipu_tf.machine.cost import ceil_div
from ipu_tf.tile_program.layouts.layout import Axis, BlockLayout

_CACHED = 1 << 14


def blocks(axes: Sequence[Axis], *, order: Sequence[int] = (), share: int = 1) -> BlockLayout:
    """Returns the layout of a tensor that is cut along its axes, in canonical form.

    Args:
        axes: From the outermost to the innermost.
        order: All axes in the order of tile numbers, the slowest first; by default that of `axes`.
        share: Neighbouring tiles that each have an even piece of a block, at most one an element.
    """
    axis_numbers = list(order) or list(range(len(axes)))
    share = min(share, math.prod(axis.part_elements for axis in axes))
    runs = [
        _AxisRun(axis=_plain(axis, share), first=axis_numbers.index(number))
        for number, axis in enumerate(axes)
        if axis.extent > 1
    ]
    runs = _without_needless_borders(runs)
    if share > 1:
        runs, share = _without_share(runs, share)
        runs = _without_needless_borders(runs)
    cut_places = [place for place, one in enumerate(runs) if one.axis.coordinates > 1]
    cut_places.sort(key=lambda place: runs[place].first)
    return BlockLayout(axes=tuple(one.axis for one in runs), order=tuple(cut_places), share=share)


@lru_cache(maxsize=_CACHED)
def linear(elements: int, tiles: int) -> BlockLayout:
    """Returns the blocks of a "linear" layout: even pieces, of which the last may be short."""
    if elements == 1:
        return BlockLayout(axes=(), order=())
    piece = ceil_div(elements, tiles)
    axis = _plain(Axis(extent=elements, parts=ceil_div(elements, piece), grain=piece), share=1)
    return BlockLayout(axes=(axis,), order=(0,) if axis.parts > 1 else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class _AxisRun:
    """One or more axes while they are joined.

    Attributes:
        axis: The joined axis.
        first: Position of its first cut axis among all cut axes, in the order of tile numbers.
        last: Position of its last cut axis.
    """

    axis: Axis
    first: int
    last: int = 0


def _plain(axis: Axis, share: int) -> Axis:
    """Returns an axis without steps and grains that make no difference."""
    if axis.coordinates == 1 and share == 1:
        return Axis(extent=axis.extent)
    even = axis.grain > 1 and axis.extent % axis.grain == 0 and axis.is_even
    return dataclasses.replace(axis, grain=1) if axis.parts == 1 or even else axis


def _without_needless_borders(runs: Sequence[_AxisRun]) -> list[_AxisRun]:
    """Returns axes with neighbours joined wherever that loses no information."""
    positions = sorted(one.first for one in runs if one.axis.coordinates > 1)
    result: list[_AxisRun] = []
    for one in runs:
        place = positions.index(one.first) if one.axis.coordinates > 1 else -1
        one = _AxisRun(axis=one.axis, first=place, last=place)
        both = _union(result[-1], one) if result else None
        if both is None:
            result.append(one)
        else:
            result[-1] = both
    return result


def _union(outer: _AxisRun, inner: _AxisRun) -> _AxisRun | None:
    """Returns two axes joined to one, if that loses no information."""
    one, other = outer.axis, inner.axis
    extent = one.extent * other.extent
    if other.parts == 1:
        axis = dataclasses.replace(one, extent=extent, grain=one.grain * other.extent)
        return dataclasses.replace(outer, axis=_plain(axis, share=2))
    single = one.parts == one.extent and one.steps == 1 and other.steps == 1
    if single and other.is_even and outer.last + 1 == inner.first:
        axis = Axis(extent=extent, parts=one.parts * other.parts)
        return _AxisRun(axis=axis, first=outer.first, last=inner.last)
    return None


def _without_share(runs: list[_AxisRun], share: int) -> tuple[list[_AxisRun], int]:
    """Returns axes cut further where tiles share blocks, and the number of tiles that still share.

    Tiles that share a block have whole rows of it wherever their number divides the rows.
    """
    if len(runs) == 1 and runs[0].axis.parts == 1:
        return [_AxisRun(axis=linear(runs[0].axis.extent, share).axes[0], first=0)], 1
    fastest = max(one.last for one in runs)
    runs = list(runs)
    for place, one in enumerate(runs):
        axis, rows = one.axis, one.axis.part_elements
        if rows == 1:
            continue
        is_last = axis.coordinates == 1 or one.last == fastest
        if axis.steps > 1 or not axis.is_even or not is_last or share == 1:
            break
        inner = runs[place + 1 :]
        if rows % share == 0:
            further = share
        elif share % rows == 0 and _divides(share // rows, inner):
            further = rows
        else:
            break
        if axis.coordinates == 1:
            fastest += 1
            one = _AxisRun(axis=axis, first=fastest, last=fastest)
        further_axis = Axis(extent=axis.extent, parts=axis.parts * further)
        runs[place] = dataclasses.replace(one, axis=further_axis)
        share //= further
    return runs, share


def _divides(share: int, inner: Sequence[_AxisRun]) -> bool:
    """Returns whether tiles have even pieces of all blocks of some axes."""
    even = all(one.axis.is_even for one in inner)
    return even and math.prod(one.axis.part_elements for one in inner) % share == 0
