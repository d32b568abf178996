"""The memory of a tensor on consecutive tiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Memory on consecutive tiles.

    Attributes:
        first_tile: The first of them; after the last tile of the chip comes tile 0.
        tiles: Number of tiles.
        tile_bytes: Bytes on each of them.
    """

    first_tile: int
    tiles: int
    tile_bytes: int

    @property
    def bytes(self) -> int:
        """Bytes on all of its tiles."""
        return self.tiles * self.tile_bytes

    @property
    def anywhere(self) -> tuple[int, int]:
        """Its tiles and bytes, wherever it lies."""
        return self.tiles, self.tile_bytes


def slices(footprint: Footprint, tiles: int) -> tuple[slice, ...]:
    """Returns the tiles of a footprint as one or two slices of the chip's tiles.

    Raises:
        ValueError: It lies on more tiles than the chip has, or starts outside the chip.
    """
    first, count = footprint.first_tile, footprint.tiles
    if not (0 <= first < tiles and 0 <= count <= tiles):
        raise ValueError(
            f"A footprint must lie on the chip's {tiles} tiles. Received: {footprint}."
        )
    end = first + count
    if end <= tiles:
        return (slice(first, end),)
    return slice(first, tiles), slice(0, end - tiles)


def add_footprint(tile_bytes: NDArray[np.int64], footprint: Footprint, times: int = 1) -> None:
    """Adds a footprint to the bytes of every tile, int64[tiles], in place."""
    for part in slices(footprint, len(tile_bytes)):
        tile_bytes[part] += times * footprint.tile_bytes


def bytes_on_tile(footprint: Footprint, tile: int, tiles: int) -> int:
    """Returns the bytes that a footprint takes on one tile of a chip of `tiles` tiles."""
    offset = (tile - footprint.first_tile) % tiles
    return footprint.tile_bytes if offset < footprint.tiles else 0
