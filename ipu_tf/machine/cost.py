"""Cycles by kind, for one plan or, as arrays, for thousands at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

Counts: TypeAlias = NDArray[np.int64]
"""Numbers of things, one per candidate plan."""

Count: TypeAlias = int | Counts
"""A number of things: an int, or one number per candidate plan."""

Measure: TypeAlias = float | NDArray[np.floating] | Counts
"""A number of cycles or slots that may have a fraction, or one per candidate plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cycles by kind. Adds up with `+`."""

    compute_cycles: Count = 0
    exchange_cycles: Count = 0
    sync_cycles: Count = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            compute_cycles=self.compute_cycles + other.compute_cycles,
            exchange_cycles=self.exchange_cycles + other.exchange_cycles,
            sync_cycles=self.sync_cycles + other.sync_cycles,
        )

    @property
    def total_cycles(self) -> Count:
        """Cycles of the whole: the three follow one another."""
        return self.compute_cycles + self.exchange_cycles + self.sync_cycles


def as_counts(count: Count) -> Counts:
    """Returns numbers as an array, without axes if it is one number."""
    return np.asarray(count)


@overload
def ceil_div(dividend: int, divisor: int) -> int: ...
@overload
def ceil_div(dividend: Count, divisor: Count) -> Count: ...
def ceil_div(dividend: Count, divisor: Count) -> Count:
    """Returns the quotient rounded up."""
    return -(-dividend // divisor)
