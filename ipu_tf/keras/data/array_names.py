"""The arrays of a structure of data, by the names that users know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from keras import tree

ROLES = ("x", "y", "sample_weight")


def has_roles(data: Any) -> bool:
    """Returns whether Keras can tell inputs, targets and weights apart in `data`."""
    return not isinstance(data, tuple | list) or 0 < len(data) <= len(ROLES)


def by_role(data: Any) -> dict[str, Any]:
    """Returns the parts of a dataset's element: `x`, `(x,)`, `(x, y)` or `(x, y, weights)`."""
    if isinstance(data, tuple | list) and has_roles(data):
        return dict(zip(ROLES, data, strict=False))
    return {"x": data}


def arrays_by_name(parts: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields name and value of every array that is not None, such as `("x['image']", array)`."""
    for role, part in parts.items():
        for path, array in tree.flatten_with_path(part):
            if array is not None:
                yield _name(role, path), array


def map_arrays(function: Callable[[str, Any], Any], parts: dict[str, Any]) -> dict[str, Any]:
    """Returns `parts` with every array that is not None replaced by `function(name, array)`."""
    mapped = {}
    for role, part in parts.items():
        flat = [
            array if array is None else function(_name(role, path), array)
            for path, array in tree.flatten_with_path(part)
        ]
        mapped[role] = tree.pack_sequence_as(part, flat)
    return mapped


def _name(role: str, path: tuple[Any, ...]) -> str:
    return role + "".join(f"[{key!r}]" for key in path)
