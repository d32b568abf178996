"""Types and checks that all shapes share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ipu_tf.machine.contractions import INPUT_BYTES
from ipu_tf.machine.cost import Count

Block: TypeAlias = Mapping[str, Count]
"""The size of every extent's part, or the number of its parts, by the extent's name."""

DTYPE_BYTES = INPUT_BYTES
PARTIAL_DTYPES = ("float32", "float16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """Elements of a block's two inputs and of its output."""

    left: Count
    right: Count
    output: Count


def check_dtype(owner: str, dtype: str) -> None:
    """Raises a ValueError that names `owner` if `dtype` is not one that the tiles multiply."""
    if dtype not in DTYPE_BYTES:
        known = " or ".join(repr(name) for name in DTYPE_BYTES)
        raise ValueError(f"{owner}.dtype must be {known}. Received: {dtype!r}.")


def check_at_least(shape: Any, minimum: int, names: tuple[str, ...]) -> None:
    """Raises a ValueError if a named field of a shape has an entry below `minimum`."""
    for name in names:
        value = getattr(shape, name)
        entries = value if isinstance(value, tuple) else (value,)
        if any(isinstance(e, bool) or not isinstance(e, int) or e < minimum for e in entries):
            kind = "positive" if minimum == 1 else "non-negative"
            raise ValueError(
                f"{type(shape).__name__}.{name} must be {kind} and an int. Received: {value!r}. "
                "The simulated IPU has no zero-sized dimensions."
            )
