"""The rule that cuts an extent into parts, as docs/numerics.md defines it."""

from __future__ import annotations

import itertools

import numpy as np

from ipu_tf.machine.cost import Count, Counts, as_counts, ceil_div


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
    size = ceil_div(ceil_div(n, grain), parts) * grain
    return size - (size > n) * (size - n)


def cut_unit(n: int, parts: Count, grain: Count = 1) -> Counts:
    """Returns a number of which the extent and all borders between parts are multiples.

    It is the largest one where single elements may be cut. Works on integers and on arrays.
    """
    units = as_counts(ceil_div(n, grain))
    together = np.where(units % parts == 0, units // parts, 1)
    return np.asarray(np.gcd(np.where(as_counts(parts) == 1, n, together * grain), n))
