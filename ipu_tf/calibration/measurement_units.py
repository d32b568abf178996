"""Units of measured figures: their dimension and size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Dimension: TypeAlias = Literal[
    "seconds",
    "cycles",
    "bytes",
    "bytes_per_second",
    "flops_per_second",
    "items_per_second",
    "count",
]


class UnknownUnit(ValueError):
    """A text that begins with no unit of a measured figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A unit, as a multiple of its dimension's base unit."""

    dimension: Dimension
    size: float


_PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_BINARY = {"ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30, "ti": 2.0**40}
_UNITS: dict[str, Unit] = {
    "s": Unit(dimension="seconds", size=1.0),
    "ms": Unit(dimension="seconds", size=1e-3),
    "us": Unit(dimension="seconds", size=1e-6),
    "µs": Unit(dimension="seconds", size=1e-6),
    "ns": Unit(dimension="seconds", size=1e-9),
    "cycles": Unit(dimension="cycles", size=1.0),
    "n": Unit(dimension="count", size=1.0),
    **{
        f"{prefix}b": Unit(dimension="bytes", size=size)
        for prefix, size in {**_PREFIXES, **_BINARY}.items()
    },
    **{
        f"{prefix}b/s": Unit(dimension="bytes_per_second", size=size)
        for prefix, size in {**_PREFIXES, **_BINARY}.items()
    },
    **{
        f"{prefix}{name}": Unit(dimension="flops_per_second", size=size)
        for prefix, size in _PREFIXES.items()
        for name in ("flops", "flop/s", "flops/s")
    },
    **{
        f"{name}/s": Unit(dimension="items_per_second", size=1.0)
        for name in ("items", "images", "samples", "sequences")
    },
}


def parse_unit(text: str) -> Unit:
    """Returns the unit that a text begins with; the rest names the measured thing.

    "TFLOPS (whole IPU)" are TFLOPS, "GB/s aggregate" are GB/s.

    Raises:
        UnknownUnit: The first word is no unit.
    """
    words = text.split()
    unit = _UNITS.get(words[0].lower()) if words else None
    if unit is None:
        choices = (
            "cycles, ns, us, ms, s, B to TB, B/s to TB/s, FLOPS to PFLOPS (or FLOP/s), items/s, n"
        )
        raise UnknownUnit(f"unknown unit. Write one of {choices}. Received: {text!r}.")
    return unit
