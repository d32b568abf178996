"""Checks timings: all figures are numbers, and only some may be zero."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection


def check_figures(timing: object, may_be_zero: Collection[str] = ()) -> None:
    """Checks that all fields of a timing are finite numbers.

    Args:
        timing: A dataclass.
        may_be_zero: Names of the fields that may be zero; the others must be positive.

    Raises:
        ValueError: A field is invalid; the message names it.
    """
    for entry in dataclasses.fields(timing):  # type: ignore[arg-type]
        value = getattr(timing, entry.name)
        right = isinstance(value, int | float) and not isinstance(value, bool)
        if not right or not 0 <= value < math.inf or (value == 0 and entry.name not in may_be_zero):
            rule = "zero or positive" if entry.name in may_be_zero else "positive"
            raise ValueError(
                f"{type(timing).__name__}.{entry.name} must be {rule}. Received: {value!r}."
            )
