"""Figures of measured points: numbers, and texts that begin with one."""

from __future__ import annotations

import re

LARGEST = 2**53
"""Sizes, clocks and counts of measurements are below it; up to it floats hold every integer."""

_NUMBER = re.compile(r"\s*([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)", re.IGNORECASE)
_ALONE = re.compile(rf"{_NUMBER.pattern}(?:\s|$)", re.IGNORECASE)


def leading_number(value: object) -> float | None:
    """Returns a number, or the number that a text begins with; None for other values."""
    if isinstance(value, str):
        match = _NUMBER.match(value)
        return float(match[1]) if match else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value


def is_out_of_range(value: object) -> bool:
    """Returns whether a value is a number that no measurement has: too large, or not finite.

    The first word of a text counts if all of it is a number: names may begin with digits.
    """
    if isinstance(value, str) and not _ALONE.match(value):
        return False
    number = leading_number(value)
    return number is not None and not -LARGEST <= number <= LARGEST  # Nor is NaN.
