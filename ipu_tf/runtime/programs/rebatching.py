"""Looks up how the step of an object is traced again for another batch size, for insights."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ipu_tf.compiler.traced_step import TracedStep
from ipu_tf.internals.structures import TensorStructure


@functools.singledispatch
def _of_class(owner: Any, function: str, batch: Any) -> Callable[[int], TracedStep | None] | None:
    """Returns None: no class is registered for the owner."""
    del owner, function, batch
    return None


register = _of_class.register
"""Registers a function for the class in its first parameter's annotation. The function maps an
object, the name of its method and the batch that it was traced for to a function from other numbers
of samples to the step traced for them, or to None. The function must not keep the object alive, and
returns None once it is gone."""


def retracer(
    owner: object, function: str, batch: TensorStructure
) -> Callable[[int], TracedStep | None] | None:
    """Returns a function from a number of samples to the step traced for them, None if unknown.

    Args:
        owner: The object whose method was traced, or None.
        function: Name of the method, such as "train_step".
        batch: The batch that it was traced for, a structure of tensors.
    """
    # Dispatches on type(): our models report Keras' class as their `__class__`.
    return _of_class.dispatch(type(owner))(owner, function, batch)
