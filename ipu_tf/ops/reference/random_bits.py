"""The random bits of stochastic rounding (docs/numerics.md, "Random bits")."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_WORD = 2**64 - 1
_GOLDEN_GAMMA = 0x9E3779B97F4A7C15
_BITS_PER_ROUNDING = 16
_ROUNDINGS_PER_WORD = 64 // _BITS_PER_ROUNDING


def splitmix64(state: int) -> int:
    """Returns the output of one splitmix64 step from `state`: add the gamma, then mix."""
    z = (state + _GOLDEN_GAMMA) & _WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _WORD
    return z ^ (z >> 31)


def mix(seed: int, stream: int, call: int, tile: int) -> int:
    """Returns the number from which the generator of one tile and call starts."""
    state = seed & _WORD
    for value in (stream, call, tile):
        state = splitmix64(state ^ (value & _WORD))
    return state


class Xoroshiro128Plus:
    """xoroshiro128+ with the shifts 24, 16 and 37: 64 random bits a step.

    Args:
        state: The two state words, each below `2**64`. Two zeros, a state that the generator
            cannot leave, stand for (1, 0).
    """

    def __init__(self, state: tuple[int, int]) -> None:
        self._s0, self._s1 = state if any(state) else (1, 0)
        self._spare: list[int] = []

    @classmethod
    def for_tile(cls, *, seed: int, stream: int, call: int, tile: int) -> Xoroshiro128Plus:
        """Returns the generator of one tile in one execution of one op."""
        start = mix(seed, stream, call, tile)
        return cls((splitmix64(start), splitmix64(start + _GOLDEN_GAMMA)))

    def next_word(self) -> int:
        """Returns the next 64 bits."""
        word = (self._s0 + self._s1) & _WORD
        t = self._s0 ^ self._s1
        self._s0 = _rotate_left(self._s0, 24) ^ t ^ ((t << 16) & _WORD)
        self._s1 = _rotate_left(t, 37)
        return word

    def next_16(self, count: int) -> NDArray[np.int64]:
        """Returns `count` numbers below 65536: four of every word, lowest bits first.

        The rest of the last word serves the next request.
        """
        numbers = self._spare
        while len(numbers) < count:
            word = self.next_word()
            numbers.extend((word >> (16 * i)) & 0xFFFF for i in range(_ROUNDINGS_PER_WORD))
        self._spare = numbers[count:]
        return np.array(numbers[:count], dtype=np.int64)


def _rotate_left(word: int, count: int) -> int:
    return ((word << count) | (word >> (64 - count))) & _WORD
