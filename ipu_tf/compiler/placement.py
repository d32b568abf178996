"""Where tensors lie: which tiles hold how much of them."""

from __future__ import annotations

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
    """

    elements: int
    element_bytes: int
    first_tile: int = 0
    tiles: int = 1
    layout: str = "linear"

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
