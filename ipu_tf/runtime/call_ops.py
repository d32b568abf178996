"""The ops that call functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LOOPS = frozenset({"While", "StatelessWhile"})
CONDITIONALS = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})

CALLS: Mapping[str, int] = {
    "PartitionedCall": 0,
    "StatefulPartitionedCall": 0,
    "While": 0,
    "StatelessWhile": 0,
    "If": 1,
    "StatelessIf": 1,
    "Case": 1,
    "StatelessCase": 1,
}
"""Ops that call functions, with the number of inputs that are not arguments of these functions."""


def functions_of(value: Any) -> list[Any]:
    """Returns the functions in the value of an attribute."""
    if value.HasField("func"):
        return [value.func]
    return list(value.list.func)
