"""The arrays of a structure of data, by the names that users know."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from keras import tree

from ipu_tf.internals.structures import TensorLike

ROLES = ("x", "y", "sample_weight")


def has_roles(data: object) -> bool:
    """Returns whether Keras can tell inputs, targets and weights apart in `data`."""
    return not isinstance(data, tuple | list) or 0 < len(data) <= len(ROLES)


def by_role(data: object) -> dict[str, object]:
    """Returns the parts of a dataset's element: `x`, `(x,)`, `(x, y)` or `(x, y, weights)`."""
    if isinstance(data, tuple | list) and has_roles(data):
        return dict(zip(ROLES, data, strict=False))
    return {"x": data}


def arrays_by_name(parts: Mapping[str, object]) -> Iterator[tuple[str, TensorLike]]:
    """Yields name and value of every array that is not None, such as `("x['image']", array)`."""
    for role, part in parts.items():
        for path, array in tree.flatten_with_path(part):
            if array is not None:
                yield _name(role, path), array


def map_arrays(
    function: Callable[[str, TensorLike], TensorLike], parts: Mapping[str, object]
) -> dict[str, object]:
    """Returns `parts` with every array that is not None replaced by `function(name, array)`."""
    arrays = {}
    for role, part in parts.items():
        flat = [
            array if array is None else function(_name(role, path), array)
            for path, array in tree.flatten_with_path(part)
        ]
        arrays[role] = tree.pack_sequence_as(part, flat)
    return arrays


def _name(role: str, path: tuple[object, ...]) -> str:
    return role + "".join(f"[{key!r}]" for key in path)
