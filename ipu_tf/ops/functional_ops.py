"""Functions that the device keeps once and calls from several places."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf


def outlined_function(
    func: Callable[..., Any] | None = None,
    unique_sharding: bool = False,
    keep_input_layouts: bool | None = None,
    name: str | None = None,
) -> Callable[..., Any]:
    """Marks a block of operations that is used several times; a decorator.

    The numbers are those of the block written out at every place. The compiler shares the code of
    equal supersteps in any case.

    Args:
        func: The block; None returns a decorator with the other arguments.
        unique_sharding: Whether the block is on one IPU; accepted without effect.
        keep_input_layouts: Whether the block takes inputs as they lie; accepted without effect.
        name: Name scope of the block.
    """
    if func is None:
        return functools.partial(
            outlined_function,
            unique_sharding=unique_sharding,
            keep_input_layouts=keep_input_layouts,
            name=name,
        )

    @functools.wraps(func)
    def outlined(*args: Any, **kwargs: Any) -> Any:
        with tf.name_scope(name or func.__name__.strip("<>_") or "outlined"):
            return func(*args, **kwargs)

    return outlined
