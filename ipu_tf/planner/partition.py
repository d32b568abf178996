"""The rule that cuts an extent into parts, as docs/numerics.md defines it."""

from __future__ import annotations

import itertools
import math
from typing import overload

import numpy as np

from ipu_tf.machine.cost import Count, as_counts, ceil_div


def partition(n: int, parts: int, grain: int = 1) -> tuple[tuple[int, int], ...]:
    """Returns the `(begin, end)` of every part of an extent, in order.

    Parts are whole grains (the last may end early), differ by at most one grain and are not empty.

    Args:
        n: Number of elements.
        parts: Number of parts.
        grain: Elements that stay together.

    Raises:
        ValueError: An argument is not positive, or there are more parts than grains.
    """
    if n < 1 or parts < 1 or grain < 1:
        raise ValueError(
            "The extent, the number of parts and the grain must be positive. "
            f"Received: n={n}, parts={parts}, grain={grain}."
        )
    units = ceil_div(n, grain)
    if parts > units:
        raise ValueError(
            f"{n} elements in grains of {grain} cannot be split into {parts} parts: "
            f"there are only {units} grains."
        )
    begins = [min(n, (part * units // parts) * grain) for part in range(parts + 1)]
    return tuple(itertools.pairwise(begins))


def largest_part(n: Count, parts: Count, grain: int = 1) -> Count:
    """Returns the size of the largest part, counted in whole grains but never above `n`.

    Works on integers and on arrays. It may exceed the exact largest part by less than a grain.
    """
    grains = n if grain == 1 else ceil_div(n, grain)
    size = ceil_div(grains, parts) * grain
    if isinstance(size, int) and isinstance(n, int):
        return min(size, n)
    return np.asarray(np.minimum(size, n))


def largest_part_elements(n: int, parts: int, grain: int = 1) -> int:
    """Returns the size of the largest part, to the element."""
    units = ceil_div(n, grain)
    size = ceil_div(units, parts) * grain
    # The last part is one of the largest, and the one that may end early.
    is_largest_alone = parts == 1 or units % parts == 1
    return size - (units * grain - n) if is_largest_alone else size


@overload
def cut_unit(n: int, parts: int, grain: int = 1) -> int: ...
@overload
def cut_unit(n: int, parts: Count, grain: Count = 1) -> Count: ...
def cut_unit(n: int, parts: Count, grain: Count = 1) -> Count:
    """Returns a number of which the extent and all borders between parts are multiples.

    It is the largest one where single elements may be cut. Works on integers and on arrays.
    """
    if isinstance(parts, int) and isinstance(grain, int):
        units = ceil_div(n, grain)
        together = 1 if units % parts else units // parts
        return n if parts == 1 else math.gcd(together * grain, n)
    size, rest = np.divmod(ceil_div(n, grain), parts)
    whole_parts = np.where(rest == 0, size, 1)
    return np.asarray(np.gcd(np.where(as_counts(parts) == 1, n, whole_parts * grain), n))
