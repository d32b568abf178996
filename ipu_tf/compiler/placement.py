"""Where tensors lie: which tiles hold how much of them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ipu_tf.machine.cost import ceil_div


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Memory on consecutive tiles.

    Attributes:
        first_tile: The first of them; after the last tile of the chip comes tile 0.
        tiles: How many.
        tile_bytes: Bytes on each of them.
    """

    first_tile: int
    tiles: int
    tile_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A tensor on tiles: dealt evenly, in pieces, to consecutive tiles.

    Attributes:
        elements: Number of elements.
        element_bytes: Bytes of one.
        first_tile: The tile of the first piece; after the last tile of the chip comes tile 0.
        tiles: Number of tiles that hold a piece.
        layout: Tensors of the same elements, tiles, first tile and layout lie alike, element by
            element, and meet without an exchange. "linear" is row-major order in even pieces;
            contractions name layouts after their plans.
        repeats: For a view in which elements repeat (a broadcast): where the distinct ones lie.
            The other fields then say how it would lie if it were stored. None for all others.
        run: How many neighbouring elements of such a view are the same.
    """

    elements: int
    element_bytes: int
    first_tile: int = 0
    tiles: int = 1
    layout: str = "linear"
    repeats: Placement | None = None
    run: int = 1

    def __post_init__(self) -> None:
        for name, least in (("elements", 0), ("element_bytes", 0), ("tiles", 1), ("run", 1)):
            if getattr(self, name) < least:
                raise ValueError(
                    f"Placement.{name} must be at least {least}. Received: {getattr(self, name)!r}."
                )

    @property
    def stored(self) -> Placement:
        """The placement of a copy of it: a view with repeated elements becomes an array."""
        return dataclasses.replace(self, repeats=None, run=1) if self.repeats else self

    @property
    def tile_elements(self) -> int:
        """Elements on the fullest tile."""
        return ceil_div(self.elements, self.tiles)

    @property
    def bytes(self) -> int:
        """Bytes of the whole tensor."""
        return self.elements * self.element_bytes

    @property
    def footprint(self) -> Footprint:
        """The memory it takes."""
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
