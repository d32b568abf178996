"""Layouts: which block of a tensor lies on which tile.

Its blocks name a layout, not the op that made it: two tensors that are cut alike, over the same
tiles, have equal layouts and are aligned element by element. Blocks have a canonical form
(`layout_form.py`), so a reshape, or a transposition there and back, gives an equal layout again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ipu_tf.machine.cost import as_counts, ceil_div
from ipu_tf.planner.partition import cut_unit, largest_part_elements

LINEAR = "linear"
"""The layout of even pieces of the row-major order, one piece per tile."""

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
        """Number of different tiles, or groups of tiles, along the axis."""
        return self.parts // self.steps

    @property
    def part_elements(self) -> int:
        """Elements of the largest part."""
        return largest_part_elements(self.extent, self.parts, self.grain)

    @property
    def most_elements(self) -> int:
        """Elements at the fullest coordinate."""
        return min(self.extent, self.part_elements * self.steps)

    @property
    def unit(self) -> int:
        """Elements of which its end and all borders between parts are multiples.

        Of 197 elements in 3 parts it is 1: two parts have 66, the third has 65.
        """
        return cut_unit(self.extent, self.parts, self.grain)

    @property
    def is_even(self) -> bool:
        """Whether all parts are of one size."""
        return self.extent == self.parts * self.part_elements


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockLayout:
    """A tensor cut along its axes; made by `layout_form.blocks`.

    Attributes:
        axes: From the outermost to the innermost, in row-major order of the elements.
        order: The cut axes in the order of tile numbers: tiles along the last one are neighbours.
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
        return self._hash  # Every cache of costs asks for it.


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A view: some or all elements of a layout, perhaps in another order.

    Attributes:
        base: The layout of the viewed elements.
        how: The operations on them, step by step.
        cut: Blocks with the same borders on tiles of other numbers; None if there are none.
            Enough to count the pieces in an exchange.
    """

    base: BlockLayout | str
    how: tuple[str, ...]
    cut: BlockLayout | None = None


Layout: TypeAlias = BlockLayout | View | str
"""Blocks, "linear", a view of either, or a bare name for any other layout."""


def view(
    layout: Layout, how: str, *, undone_by: str = "", cut: BlockLayout | None = None
) -> View | BlockLayout | str:
    """Returns the layout of a view.

    Args:
        layout: The layout of the viewed tensor.
        how: The operation on its elements.
        undone_by: The view that `how` undoes if it is the last one.
        cut: A layout with the borders of the view.
    """
    steps = layout.how if isinstance(layout, View) else ()
    base = layout.base if isinstance(layout, View) else layout
    if steps and steps[-1] == undone_by:
        return View(base=base, how=steps[:-1], cut=cut) if steps[:-1] else base
    return View(base=base, how=(*steps, how), cut=cut)


@lru_cache(maxsize=_CACHED)
def overlaps(source: Axis, other: Axis) -> int:
    """Returns the most coordinates of an axis that one coordinate of another axis overlaps.

    Args:
        source: The axis as the elements lie.
        other: The wanted axis, cut from the same extent.
    """
    if source.coordinates == 1 or source == other:
        return 1
    begins, bounds = part_begins(source), part_begins(other)
    first = np.searchsorted(begins, bounds, side="right")
    last = np.searchsorted(begins, np.append(bounds[1:], other.extent) - 1, side="right")
    overlap_counts = (last - first + 1).reshape(other.steps, -1).sum(axis=0)
    return min(source.coordinates, int(overlap_counts.max()))


@lru_cache(maxsize=_CACHED)
def part_begins(axis: Axis) -> NDArray[np.int64]:
    """Returns the first element of every part, int64[parts]."""
    units = ceil_div(axis.extent, axis.grain)
    return np.arange(axis.parts, dtype=np.int64) * units // axis.parts * axis.grain


def tile_offsets(layout: BlockLayout) -> NDArray[np.int64]:
    """Returns the tile of every element, in row-major order, counted from the first tile.

    Defines the meaning of a layout; costs do not use it.
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


def tile_counts(layout: BlockLayout) -> NDArray[np.int64]:
    """Returns the number of elements on every tile, int64[layout.tiles].

    Exact unless tiles share blocks of several sizes that follow one another on a tile; their sum
    always is.
    """
    counts = np.ones(1, np.int64)
    for number in layout.order:
        axis = layout.axes[number]
        lengths = np.diff(np.append(part_begins(axis), axis.extent))
        part_elements = lengths.reshape(axis.steps, axis.coordinates).sum(axis=0)
        counts = np.multiply.outer(counts, part_elements).ravel()
    whole = (axis.extent for number, axis in enumerate(layout.axes) if number not in layout.order)
    counts = counts * math.prod(whole)
    piece = as_counts(ceil_div(counts, layout.share))[:, np.newaxis]
    before = np.arange(layout.share) * piece
    return np.clip(counts[:, np.newaxis] - before, 0, piece).ravel()


def _tile_strides(layout: BlockLayout) -> dict[int, int]:
    """Returns the number of tiles that a step along each cut axis skips."""
    strides, stride = {}, layout.share
    for number in reversed(layout.order):
        strides[number] = stride
        stride *= layout.axes[number].coordinates
    return strides
