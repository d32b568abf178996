"""Programs of a process without a device: they are compiled, and do not run."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipu_tf.internals.graphs import in_jitted_function
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.internals.tensorflow import func_graph_from_py_func

CONNECTIONS = ("never", "pre_compile")
"""The types of connection without a device."""


def compiled(
    program: Callable[[tuple[TensorStructure, ...], dict[str, TensorStructure]], TensorStructure],
    args: tuple[TensorStructure, ...],
    kwargs: dict[str, TensorStructure],
    *,
    name: str,
    connection: str,
) -> TensorStructure:
    """Compiles a program, and returns what stands for its results in the graph that is being built.

    Variables keep their values, and queues get nothing.

    Args:
        program: Traces the program; takes its positional and its keyword arguments.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        name: Name of the program.
        connection: "pre_compile": the results are zeros. "never": they raise when they are
            computed.

    Raises:
        InvalidArgumentError: The connection is "never", and the function around the program has
            `jit_compile=True`.
    """
    graph = func_graph_from_py_func(
        re.sub(r"\W+", "", name) or "program", lambda: program(args, kwargs), (), {}
    )
    if connection == "pre_compile":
        return _zeros_like(graph.structured_outputs)
    message = (
        f"'{name}' cannot run: the system is configured for compilation only, because "
        "`device_connection.type` is NEVER. `strategy.report()` has the figures of the program. "
        "Set ALWAYS or ON_DEMAND to run it."
    )
    if in_jitted_function(tf.compat.v1.get_default_graph()):  # XLA leaves assertions out.
        raise tf.errors.InvalidArgumentError(None, None, message)
    with tf.control_dependencies([tf.debugging.Assert(tf.constant(False), [message])]):
        return _zeros_like(graph.structured_outputs)


def _zeros_like(outputs: Any) -> Any:
    """Returns zeros in place of tensors; anything else remains."""
    return tf.nest.map_structure(
        lambda leaf: tf.zeros(leaf.shape, leaf.dtype) if isinstance(leaf, tf.Tensor) else leaf,
        outputs,
        expand_composites=True,
    )
