"""Functions that the device keeps once and calls from several places."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipu_tf.internals.graphs import graph_of_session


def outlined_function(
    func: Callable[..., object] | None = None,
    unique_sharding: bool = False,
    keep_input_layouts: bool | None = None,
    name: str | None = None,
) -> Callable[..., object]:
    """Marks a block of operations that is used several times; a decorator.

    The numbers are those of the block written out at every place. The compiler shares the code of
    equal supersteps in any case. In a graph of TensorFlow 1, variables that the block gets with
    `tf.compat.v1.get_variable` are those of its first call.

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

    was_called = False

    @functools.wraps(func)
    def outlined(*args: Any, **kwargs: Any) -> Any:
        nonlocal was_called
        variables = _variables_of_before() if was_called else contextlib.nullcontext()
        was_called = True
        with tf.name_scope(name or func.__name__.strip("<>_") or "outlined"), variables:
            return func(*args, **kwargs)

    return outlined


def _variables_of_before() -> contextlib.AbstractContextManager[Any]:
    """Makes `get_variable` return variables that exist, in a graph of TensorFlow 1."""
    if graph_of_session() is None:
        return contextlib.nullcontext()
    return tf.compat.v1.variable_scope(
        tf.compat.v1.get_variable_scope(),
        reuse=tf.compat.v1.AUTO_REUSE,
        auxiliary_name_scope=False,
    )
