"""The vendor's names of reductions in collectives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

LOCAL = "local"

_REDUCTIONS: Mapping[str, str] = MappingProxyType(
    {
        "COLLECTIVE_OP_ADD": "add",
        "COLLECTIVE_OP_MEAN": "mean",
        "COLLECTIVE_OP_MUL": "mul",
        "COLLECTIVE_OP_MIN": "min",
        "COLLECTIVE_OP_MAX": "max",
        "COLLECTIVE_OP_LOGICAL_AND": "logical_and",
        "COLLECTIVE_OP_LOGICAL_OR": "logical_or",
        "COLLECTIVE_OP_SQUARE_ADD": "square_add",
        "COLLECTIVE_OP_LOCAL": LOCAL,
    }
)


def reduction_of(name: str, op: str, without: Iterable[str] = ()) -> str:
    """Returns the reduction that the vendor calls by a name such as "COLLECTIVE_OP_ADD".

    Args:
        name: The name.
        op: Name of the operation, for errors.
        without: Reductions that the operation does not have.

    Raises:
        ValueError: There is no such reduction.
    """
    operations = {key: value for key, value in _REDUCTIONS.items() if value not in without}
    if name not in operations:
        raise ValueError(f"{op}: `op` must be one of {', '.join(operations)}. Received: {name!r}.")
    return operations[name]
