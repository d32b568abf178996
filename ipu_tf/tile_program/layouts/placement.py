"""Placements: which tiles hold how much of a tensor."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ipu_tf.machine.cost import ceil_div
from ipu_tf.tile_program.layouts.footprint import Footprint
from ipu_tf.tile_program.layouts.layout import LINEAR, BlockLayout, Layout, View
from ipu_tf.tile_program.layouts.layout_form import linear


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A tensor on tiles: dealt evenly, in pieces, to consecutive tiles.

    Attributes:
        elements: Number of elements.
        element_bytes: Bytes of one.
        first_tile: The tile of the first piece; after the last tile of the chip comes tile 0.
        tiles: Number of tiles that hold a piece.
        layout: Which block lies on which tile. Tensors of the same elements, tiles, first tile and
            layout are aligned, element by element, and need no exchange to meet. Blocks that are
            even pieces of the row-major order become "linear".
        repeats: For a view in which elements repeat (a broadcast): the placement of the distinct
            elements. The other fields then describe the view as if it were stored. None otherwise.
        pattern: The dimensions of such a view, the outermost first: extents, and whether distinct
            elements follow one another along them.
    """

    elements: int
    element_bytes: int
    first_tile: int = 0
    tiles: int = 1
    layout: Layout = LINEAR
    repeats: Placement | None = None
    pattern: tuple[tuple[int, bool], ...] = ()

    def __post_init__(self) -> None:
        for name, least in (("elements", 0), ("element_bytes", 0), ("tiles", 1)):
            if getattr(self, name) < least:
                raise ValueError(
                    f"Placement.{name} must be at least {least}. Received: {getattr(self, name)!r}."
                )
        blocks = self.layout
        if isinstance(blocks, BlockLayout) and (blocks.elements, blocks.tiles) != (
            self.elements,
            self.tiles,
        ):
            raise ValueError(
                f"Placement.layout must be of its {self.elements} elements on {self.tiles} tiles. "
                f"Received: {blocks.elements} elements on {blocks.tiles} tiles, {blocks!r}."
            )
        if isinstance(blocks, BlockLayout) and blocks == linear(self.elements, self.tiles):
            object.__setattr__(self, "layout", LINEAR)

    @property
    def stored(self) -> Placement:
        """The placement of a copy of it: a view with repeated elements becomes an array."""
        return dataclasses.replace(self, repeats=None, pattern=()) if self.repeats else self

    @property
    def blocks(self) -> BlockLayout | None:
        """Its blocks; None if only the name of its layout is known."""
        if isinstance(self.layout, BlockLayout):
            return self.layout
        if self.layout == LINEAR and self.elements:
            return linear(self.elements, self.tiles)
        return None

    @property
    def cut(self) -> BlockLayout | None:
        """Blocks with the same borders, on any tiles; None if not known."""
        return self.layout.cut if isinstance(self.layout, View) else self.blocks

    @property
    def tile_elements(self) -> int:
        """Elements on the fullest tile."""
        base = self.layout.base if isinstance(self.layout, View) else self.layout
        if isinstance(base, BlockLayout) and base.elements == self.elements:
            return base.tile_elements
        return ceil_div(self.elements, self.tiles)

    @property
    def bytes(self) -> int:
        """Bytes of the whole tensor."""
        return self.elements * self.element_bytes

    @property
    def footprint(self) -> Footprint:
        """Its memory on the tiles."""
        tile_bytes = self.tile_elements * self.element_bytes
        return Footprint(first_tile=self.first_tile, tiles=self.tiles, tile_bytes=tile_bytes)

    def aligned(self, other: Placement) -> bool:
        """Returns whether the same elements of both lie on the same tiles."""
        return (
            self.elements == other.elements
            and self.tiles == other.tiles
            and self.first_tile == other.first_tile
            and self.layout == other.layout
            and self.repeats is None
            and other.repeats is None
        )
