"""Rounding to float16 (docs/numerics.md, "round16")."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ipu_tf.ops.reference.random_bits import Xoroshiro128Plus

_LARGEST = 65504.0
_SMALLEST_NORMAL_EXPONENT = -14
_MANTISSA_BITS = 10
_MODES = ("nearest", "stochastic")


def round16(
    values: NDArray[np.floating],
    *,
    nanoo: bool = False,
    bits: NDArray[np.int64] | None = None,
) -> NDArray[np.float32]:
    """Returns the values rounded to float16, as float32 of the same shape.

    Args:
        values: The values; computed in float64, in which every step is exact for float32.
        nanoo: Whether an overflow gives NaN; else it gives the largest finite float16.
        bits: Random numbers below 65536, as many as values, for stochastic rounding; None rounds
            to nearest, ties to even.
    """
    magnitude = np.abs(np.asarray(values, dtype=np.float64))
    finite = np.where(np.isfinite(magnitude), magnitude, 0.0)
    # frexp gives a fraction in [0.5, 1), hence the 1.
    exponent = np.maximum(np.frexp(finite)[1] - 1, _SMALLEST_NORMAL_EXPONENT)
    spacing = np.ldexp(1.0, exponent - _MANTISSA_BITS)
    steps = finite / spacing
    if bits is None:
        steps = np.rint(steps)
    else:
        below = np.floor(steps)
        up = np.floor((steps - below) * 65536) + bits.reshape(steps.shape) >= 65536
        steps = below + up
    rounded = steps * spacing
    overflow = np.isinf(magnitude) | (rounded > _LARGEST)
    rounded = np.where(overflow, np.nan if nanoo else _LARGEST, rounded)
    rounded = np.where(np.isnan(magnitude), np.nan, rounded)
    return np.copysign(rounded, values).astype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounding:
    """How an execution of an op rounds to float16.

    Attributes:
        mode: "nearest" or "stochastic".
        nanoo: Whether an overflow gives NaN; else it gives the largest finite float16.
        seed: Seed of the process; this and the following two matter to "stochastic" only.
        stream: Number of the op in its program.
        call: Executions of the op since the seed was set.
    """

    mode: str = "nearest"
    nanoo: bool = False
    seed: int = 0
    stream: int = 0
    call: int = 0

    def __post_init__(self) -> None:
        if self.mode not in _MODES:
            raise ValueError(
                f"Rounding.mode must be 'nearest' or 'stochastic'. Received: {self.mode!r}."
            )

    def on_tile(self, tile: int) -> TileRounder:
        """Returns the rounder of one tile; every tile has its own random bits."""
        if self.mode == "nearest":
            return TileRounder(nanoo=self.nanoo)
        generator = Xoroshiro128Plus.for_tile(
            seed=self.seed, stream=self.stream, call=self.call, tile=tile
        )
        return TileRounder(nanoo=self.nanoo, generator=generator)


NEAREST = Rounding()
"""Ties to even, saturating."""


class TileRounder:
    """Rounds the blocks of one tile, one after the other.

    Args:
        nanoo: Whether an overflow gives NaN.
        generator: Random bits for stochastic rounding; None rounds to nearest.
    """

    def __init__(self, *, nanoo: bool, generator: Xoroshiro128Plus | None = None) -> None:
        self._nanoo = nanoo
        self._generator = generator

    def __call__(self, block: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the block rounded to float16, in row-major order of its elements."""
        bits = None if self._generator is None else self._generator.next_16(block.size)
        return round16(block, nanoo=self._nanoo, bits=bits)
