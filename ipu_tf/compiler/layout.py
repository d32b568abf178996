"""Layouts: which block of a tensor lies on which tile.

A layout is named by its blocks, not by the op that made it: two tensors that are cut alike, over
the same tiles, have equal layouts and meet element by element. Blocks are kept in one form
(`blocks`), so that a reshape, or a transposition there and back, gives an equal layout again.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ipu_tf.compiler.partition import partition
from ipu_tf.machine.cost import ceil_div

LINEAR = "linear"
"""The layout of even pieces of the row-major order, one a tile."""

_CACHED = 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A dimension, or several that follow one another, and how it is cut (docs/numerics.md).

    Attributes:
        extent: Elements.
        parts: Parts; they differ by at most one grain.
        grain: Elements that stay together.
        steps: Parts that one tile holds: part `i` is at coordinate `i % (parts // steps)`.
    """

    extent: int
    parts: int = 1
    grain: int = 1
    steps: int = 1

    def __post_init__(self) -> None:
        if min(self.extent, self.parts, self.grain, self.steps) < 1:
            raise ValueError(f"All numbers of an Axis must be positive. Received: {self!r}.")
        if self.parts > ceil_div(self.extent, self.grain) or self.parts % self.steps:
            raise ValueError(
                "An Axis has at most one part a grain, and steps that divide the parts. "
                f"Received: {self!r}."
            )

    @property
    def coordinates(self) -> int:
        """Different tiles, or groups of tiles, along it."""
        return self.parts // self.steps

    @property
    def part_elements(self) -> int:
        """Elements of the largest part."""
        return _largest_part(self.extent, self.parts, self.grain)

    @property
    def held(self) -> int:
        """Elements at the fullest coordinate."""
        return min(self.extent, self.part_elements * self.steps)

    @property
    def is_even(self) -> bool:
        """Whether all parts are of one size."""
        return self.extent == self.parts * self.part_elements


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """A tensor cut along its axes; made by `blocks`.

    Attributes:
        axes: From the outermost to the innermost, in row-major order of the elements.
        order: The axes that are cut, as tiles are numbered: those of the last one are neighbours.
        share: Neighbouring tiles that each have an even piece of a block, in row-major order.
        elements: Elements of the tensor.
        tiles: Tiles that it lies on.
        tile_elements: Elements on the fullest tile.
    """

    axes: tuple[Axis, ...]
    order: tuple[int, ...]
    share: int = 1
    elements: int = field(init=False, compare=False)
    tiles: int = field(init=False, compare=False)
    tile_elements: int = field(init=False, compare=False)
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        elements = math.prod(axis.extent for axis in self.axes)
        tiles = math.prod(axis.coordinates for axis in self.axes) * self.share
        steps = math.prod(axis.steps for axis in self.axes)
        piece = ceil_div(math.prod(axis.part_elements for axis in self.axes), self.share)
        object.__setattr__(self, "elements", elements)
        object.__setattr__(self, "tiles", tiles)
        object.__setattr__(self, "tile_elements", min(elements, steps * piece))
        object.__setattr__(self, "_hash", hash((self.axes, self.order, self.share)))

    def __hash__(self) -> int:
        return self._hash  # Asked for by every cache of costs.


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Elements in another order than that of the layout they lie in, or some of them.

    Attributes:
        base: How the elements lie that it views.
        how: What was done to them, step by step.
        cut: Blocks with the same borders, of which the tiles have other numbers; None if there are
            none. Enough to count the pieces that something meets.
    """

    base: Blocks | str
    how: tuple[str, ...]
    cut: Blocks | None = None


Layout: TypeAlias = Blocks | View | str
"""Blocks, "linear", a view of either, or a name for anything else, of which no more is known."""


def view(
    layout: Layout, how: str, *, undone_by: str = "", cut: Blocks | None = None
) -> View | Blocks | str:
    """Returns the layout of a view.

    Args:
        layout: How what is viewed lies.
        how: What is done to its elements.
        undone_by: The view that `how` would undo if it were the last one.
        cut: A layout with the borders of the view.
    """
    steps = layout.how if isinstance(layout, View) else ()
    base = layout.base if isinstance(layout, View) else layout
    if steps and steps[-1] == undone_by:
        return View(base=base, how=steps[:-1], cut=cut) if steps[:-1] else base
    return View(base=base, how=(*steps, how), cut=cut)


def blocks(axes: Sequence[Axis], *, order: Sequence[int] = (), share: int = 1) -> Blocks:
    """Returns the layout of a tensor that is cut along its axes, in the one form it is kept in.

    Args:
        axes: From the outermost to the innermost.
        order: All axes as tiles are numbered, the slowest first; by default as they are.
        share: Neighbouring tiles that each have an even piece of a block, at most one an element.
    """
    numbered = list(order) or list(range(len(axes)))
    share = min(share, math.prod(axis.part_elements for axis in axes))
    found = [
        _Numbered(axis=_plain(axis, share), first=numbered.index(number))
        for number, axis in enumerate(axes)
        if axis.extent > 1
    ]
    found = _merged(found)
    if share > 1:
        found, share = _without_share(found, share)
        found = _merged(found)
    cut = [place for place, one in enumerate(found) if one.axis.coordinates > 1]
    cut.sort(key=lambda place: found[place].first)
    return Blocks(axes=tuple(one.axis for one in found), order=tuple(cut), share=share)


@lru_cache(maxsize=_CACHED)
def linear(elements: int, tiles: int) -> Blocks:
    """Returns the blocks that "linear" stands for: even pieces, the last ones perhaps short."""
    if elements == 1:
        return Blocks(axes=(), order=())
    piece = ceil_div(elements, tiles)
    axis = _plain(Axis(extent=elements, parts=ceil_div(elements, piece), grain=piece), share=1)
    return Blocks(axes=(axis,), order=(0,) if axis.parts > 1 else ())


@lru_cache(maxsize=_CACHED)
def split(layout: Blocks, dims: tuple[int, ...]) -> tuple[Blocks, tuple[int, ...]] | None:
    """Returns a layout with an axis border at every border of some dimensions, if it has them.

    Args:
        layout: The blocks.
        dims: Extents with the same number of elements.

    Returns:
        The same blocks, and for every axis the dimension it belongs to; None if parts end within
        rows.
    """
    axes: list[Axis] = []
    owners: list[int] = []
    order_of: dict[int, list[int]] = {}
    pending = [(n, d) for n, d in enumerate(dims) if d > 1]
    open_extent, owner = 1, 0
    for number, axis in enumerate(layout.axes):
        pieces = order_of.setdefault(number, [])
        rest: Axis | None = axis
        while rest is not None:
            if open_extent == 1:
                owner, open_extent = pending.pop(0)
            if open_extent % rest.extent == 0:
                outer, inner = rest, None
            elif rest.extent % open_extent == 0:
                divided = _divided(rest, open_extent)
                if divided is None:
                    return None
                outer, inner = divided
            else:
                return None
            open_extent //= outer.extent
            pieces.append(len(axes))
            axes.append(outer)
            owners.append(owner)
            rest = inner
    order = [place for number in layout.order for place in order_of[number]]
    cut = tuple(place for place in order if axes[place].coordinates > 1)
    return Blocks(axes=tuple(axes), order=cut, share=layout.share), tuple(owners)


@lru_cache(maxsize=_CACHED)
def common_dims(one: Blocks, other: Blocks) -> tuple[int, ...] | None:
    """Returns dimensions whose borders are those of both layouts; None if there are none."""
    borders = sorted({*_suffixes(one), *_suffixes(other)}, reverse=True)
    dims = []
    for outer, inner in itertools.pairwise([*borders, 1]):
        if outer % inner:
            return None
        dims.append(outer // inner)
    return tuple(dims)


def transposed(layout: Blocks, dims: Sequence[int], permutation: Sequence[int]) -> Blocks | None:
    """Returns the layout of a transposed view in the row-major order of the result.

    Where several tiles share a block, they have the pieces of the transposed block in its own
    order, which are others: their borders are right, their tiles are not. None if it has no
    blocks: parts end within rows.
    """
    found = split(layout, tuple(dims))
    if found is None:
        return None
    apart, owners = found
    places = [place for axis in permutation for place, owner in enumerate(owners) if owner == axis]
    axes = [apart.axes[place] for place in places]
    return blocks(axes, order=_renumbered(apart, places), share=layout.share)


def keeps_reversed(layout: Blocks, dims: Sequence[int], reversed_: Sequence[int]) -> bool:
    """Returns whether every element stays on its tile if dimensions are reversed."""
    found = split(layout, tuple(dims))
    if found is None or layout.share > 1:
        return False
    apart, owners = found
    return all(
        axis.coordinates == 1
        for axis, owner in zip(apart.axes, owners, strict=True)
        if owner in reversed_
    )


def reduced(layout: Blocks, dims: Sequence[int], reduced_: Sequence[int]) -> Blocks | None:
    """Returns the layout without some dimensions; None if those are cut, or have no borders."""
    found = split(layout, tuple(dims))
    if found is None or layout.share > 1:
        return None
    apart, owners = found
    places = [place for place, owner in enumerate(owners) if owner not in reduced_]
    if any(place not in places for place in apart.order):
        return None
    return blocks([apart.axes[place] for place in places], order=_renumbered(apart, places))


def resized(layout: Blocks, dims: Sequence[int], extents: Sequence[int]) -> Blocks | None:
    """Returns the layout of a tensor of other extents whose dimensions are cut as often.

    Args:
        layout: A layout.
        dims: Extents of the tensor that has it.
        extents: Those of the other one, as many.

    Returns:
        The layout; None if a dimension of another extent is cut in several ways.
    """
    found = split(layout, tuple(dims))
    if found is None or layout.share > 1 or len(dims) != len(extents):
        return None
    apart, owners = found
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


@lru_cache(maxsize=_CACHED)
def overlaps(source: Axis, other: Axis) -> int:
    """Returns the most coordinates of an axis that hold what lies at one coordinate of another.

    Args:
        source: How the elements lie.
        other: How they are wanted, cut from the same extent.
    """
    if source.coordinates == 1 or source == other:
        return 1
    begins, bounds = part_begins(source), part_begins(other)
    first = np.searchsorted(begins, bounds, side="right")
    last = np.searchsorted(begins, np.append(bounds[1:], other.extent) - 1, side="right")
    met = (last - first + 1).reshape(other.steps, -1).sum(axis=0)
    return min(source.coordinates, int(met.max()))


@lru_cache(maxsize=_CACHED)
def part_begins(axis: Axis) -> NDArray[np.int64]:
    """Returns the first element of every part, int64[parts]."""
    units = ceil_div(axis.extent, axis.grain)
    return np.arange(axis.parts, dtype=np.int64) * units // axis.parts * axis.grain


def tile_offsets(layout: Blocks) -> NDArray[np.int64]:
    """Returns for every element, in row-major order, its tile, counted from the first one.

    The definition of what a layout means; costs are computed without it.
    """
    group, within, sizes = (np.full(1, start, np.int64) for start in (0, 0, 1))
    strides = _tile_strides(layout)
    for number, axis in enumerate(layout.axes):
        begins = part_begins(axis)
        lengths = np.diff(np.append(begins, axis.extent))
        elements = np.arange(axis.extent)
        part = np.searchsorted(begins, elements, side="right") - 1
        at = part % axis.coordinates * strides.get(number, 0)
        group = np.add.outer(group, at).ravel()
        within = (np.multiply.outer(within, lengths[part]) + (elements - begins[part])).ravel()
        sizes = np.multiply.outer(sizes, lengths[part]).ravel()
    return group + within // ceil_div(sizes, layout.share)


def _renumbered(layout: Blocks, places: Sequence[int]) -> list[int]:
    """Returns the order of some axes of a layout, cut ones first, as numbers among them."""
    cut = [place for place in layout.order if place in places]
    uncut = [place for place in places if place not in cut]
    return [list(places).index(place) for place in (*cut, *uncut)]


def _tile_strides(layout: Blocks) -> dict[int, int]:
    """Returns how many tiles a step along each cut axis is."""
    strides, stride = {}, layout.share
    for number in reversed(layout.order):
        strides[number] = stride
        stride *= layout.axes[number].coordinates
    return strides


@dataclass(frozen=True, slots=True, kw_only=True)
class _Numbered:
    """One or more axes in the making.

    Attributes:
        axis: They as one.
        first: Place of the first of them that is cut among all that are, as tiles are numbered.
        last: Place of the last one.
    """

    axis: Axis
    first: int
    last: int = 0


@lru_cache(maxsize=_CACHED)
def _largest_part(extent: int, parts: int, grain: int) -> int:
    """Returns the size of the largest part, to the element."""
    return max(end - begin for begin, end in partition(extent, parts, grain))


def _plain(axis: Axis, share: int) -> Axis:
    """Returns an axis without steps and grains that make no difference."""
    if axis.coordinates == 1 and share == 1:
        return Axis(extent=axis.extent)
    even = axis.grain > 1 and axis.extent % axis.grain == 0 and axis.is_even
    return dataclasses.replace(axis, grain=1) if axis.parts == 1 or even else axis


def _merged(found: Sequence[_Numbered]) -> list[_Numbered]:
    """Returns axes with neighbours as one wherever that says as much."""
    cut = sorted(one.first for one in found if one.axis.coordinates > 1)
    merged: list[_Numbered] = []
    for one in found:
        place = cut.index(one.first) if one.axis.coordinates > 1 else -1
        one = _Numbered(axis=one.axis, first=place, last=place)
        joined = _joined(merged[-1], one) if merged else None
        if joined is None:
            merged.append(one)
        else:
            merged[-1] = joined
    return merged


def _joined(outer: _Numbered, inner: _Numbered) -> _Numbered | None:
    """Returns two axes as one, if that says as much."""
    one, other = outer.axis, inner.axis
    extent = one.extent * other.extent
    if other.parts == 1:
        axis = dataclasses.replace(one, extent=extent, grain=one.grain * other.extent)
        return dataclasses.replace(outer, axis=_plain(axis, share=2))
    single = one.parts == one.extent and one.steps == 1 and other.steps == 1
    if single and other.is_even and outer.last + 1 == inner.first:
        axis = Axis(extent=extent, parts=one.parts * other.parts)
        return _Numbered(axis=axis, first=outer.first, last=inner.last)
    return None


def _without_share(found: list[_Numbered], share: int) -> tuple[list[_Numbered], int]:
    """Returns axes that are cut further where tiles share blocks, and how many still do.

    Tiles that share a block have whole rows of it wherever their number divides the rows.
    """
    if len(found) == 1 and found[0].axis.parts == 1:
        return [_Numbered(axis=linear(found[0].axis.extent, share).axes[0], first=0)], 1
    fastest = max(one.last for one in found)
    found = list(found)
    for place, one in enumerate(found):
        axis, rows = one.axis, one.axis.part_elements
        if rows == 1:
            continue
        is_last = axis.coordinates == 1 or one.last == fastest
        if axis.steps > 1 or not axis.is_even or not is_last or share == 1:
            break
        inner = found[place + 1 :]
        if rows % share == 0:
            further = share
        elif share % rows == 0 and _divides(share // rows, inner):
            further = rows
        else:
            break
        if axis.coordinates == 1:
            fastest += 1
            one = _Numbered(axis=axis, first=fastest, last=fastest)
        cut = Axis(extent=axis.extent, parts=axis.parts * further)
        found[place] = dataclasses.replace(one, axis=cut)
        share //= further
    return found, share


def _divides(share: int, inner: Sequence[_Numbered]) -> bool:
    """Returns whether tiles have even pieces of all blocks of some axes."""
    even = all(one.axis.is_even for one in inner)
    return even and math.prod(one.axis.part_elements for one in inner) % share == 0


def _divided(axis: Axis, outer: int) -> tuple[Axis, Axis] | None:
    """Returns an axis as two, the first of extent `outer`; None if parts end within rows."""
    row = axis.extent // outer
    if axis.parts == 1:
        return Axis(extent=outer), Axis(extent=row)
    if axis.grain % row == 0:
        cut = Axis(extent=outer, parts=axis.parts, grain=axis.grain // row, steps=axis.steps)
        return cut, Axis(extent=row)
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


def _suffixes(layout: Blocks) -> Iterator[int]:
    """Yields the elements from every axis border to the end."""
    elements = 1
    for axis in reversed(layout.axes):
        elements *= axis.extent
        yield elements
