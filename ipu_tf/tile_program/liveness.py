"""Lists the tensors in memory at a step, by tile, layer and category."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ipu_tf.tile_program.layouts.footprint import bytes_on_tile
from ipu_tf.tile_program.program import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTensor:
    """A tensor as one tile sees it.

    Attributes:
        tensor: The tensor.
        tile_bytes: Bytes of it on that tile.
    """

    tensor: Tensor
    tile_bytes: int


def live_at(tensors: Iterable[Tensor], step: int) -> tuple[Tensor, ...]:
    """Returns the tensors that are in memory while a step runs, always-live ones included."""
    return tuple(
        tensor
        for tensor in tensors
        if tensor.always_live or tensor.first_step <= step <= tensor.last_step
    )


def live_on_tile(
    tensors: Iterable[Tensor], *, step: int, tile: int, tiles: int
) -> tuple[LiveTensor, ...]:
    """Returns the bytes of every live tensor on one tile at a step, the largest first.

    Args:
        tensors: The tensors of a program.
        step: Index of the step.
        tile: Number of the tile.
        tiles: Tiles of the chip.
    """
    lives = [
        LiveTensor(tensor=tensor, tile_bytes=bytes_on_tile(tensor.footprint, tile, tiles))
        for tensor in live_at(tensors, step)
    ]
    there = [live for live in lives if live.tile_bytes]
    return tuple(sorted(there, key=lambda live: -live.tile_bytes))
