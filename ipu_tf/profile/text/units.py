"""Figures as people read them: with a unit, and few digits."""

from __future__ import annotations

_KIB = 1024
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")
_THOUSANDS = ("", "k", "M", "G", "T", "P")
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"))


def count(value: float, unit: str = "") -> str:
    """Returns a number with the prefix that leaves one to three digits before the point."""
    value, prefix = float(value), 0
    while round(abs(value), 1) >= 1000 and prefix < len(_THOUSANDS) - 1:
        value, prefix = value / 1000, prefix + 1
    digits = 0 if prefix == 0 and value == int(value) else 1
    return f"{value:.{digits}f} {_THOUSANDS[prefix]}{unit}".rstrip()


def duration(seconds: float) -> str:
    """Returns a time in the unit that leaves at least one digit before the point."""
    return _small(seconds, "s")


def joules(energy: float) -> str:
    """Returns an energy in the unit that leaves at least one digit before the point."""
    return _small(energy, "J")


def precise(value: float, unit: str) -> str:
    """Returns a small value with four digits, for figures that are compared: "6.699 nJ"."""
    scales = (*_SMALL, (1e-12, "p"))
    scale, prefix = next((entry for entry in scales if value >= entry[0]), scales[-1])
    return f"{value / scale:.4g} {prefix if value else ''}{unit}"


def _small(value: float, unit: str) -> str:
    scale, prefix = next((entry for entry in _SMALL if value >= entry[0]), _SMALL[-1])
    return f"{value / scale:.1f} {prefix}{unit}"


def kib(size_bytes: float) -> str:
    """Returns a size in KiB, without the unit: tile memory is counted in KiB."""
    return f"{size_bytes / _KIB:,.1f}"


def memory(size_bytes: float) -> str:
    """Returns a size with the binary prefix that leaves a digit before the point: "4.6 MiB"."""
    value, prefix = float(size_bytes), 0
    while round(value, 1) >= _KIB and prefix < len(_BINARY) - 1:
        value, prefix = value / _KIB, prefix + 1
    return f"{value:.{1 if prefix else 0}f} {_BINARY[prefix]}"


def percent(share: float) -> str:
    """Returns a share in percent."""
    return f"{100 * share:.1f}%"
