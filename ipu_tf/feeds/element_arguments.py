"""The elements of infeeds as arguments of the functions that take them."""

from __future__ import annotations

from collections.abc import Mapping

from ipu_tf.internals.structures import TensorStructure


def arguments_of(element: TensorStructure) -> tuple[tuple[object, ...], Mapping[str, object]]:
    """Returns the element of an infeed as positional and as named arguments.

    Args:
        element: A dict, alone or in a tuple of one, gives named arguments; a tuple or list
            positional ones.
    """
    if isinstance(element, tuple | list) and len(element) == 1 and isinstance(element[0], Mapping):
        (element,) = element
    if isinstance(element, Mapping):
        return (), element
    return tuple(element) if isinstance(element, tuple | list) else (element,), {}
