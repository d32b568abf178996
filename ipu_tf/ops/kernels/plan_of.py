"""`plan_of`: the plan that a tile op executes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipu_tf.ops.kernels.twins import STOCK_OF, plan_from_attributes
from ipu_tf.planner.plan import Plan


def plan_of(target: Callable[..., tf.Tensor] | tf.Tensor, *args: object, **kwargs: object) -> Plan:
    """Returns the plan of a tile op.

    Args:
        target: A function of `ipu_tf.ops`, or a tensor that a tile op returns in a graph.
        *args: With a function: its arguments; tensors may be `tf.TensorSpec`s.
        **kwargs: With a function: its keyword arguments.

    Raises:
        ValueError: The tensor does not come from a tile op, or the arguments do not fit.

    Example:
        >>> x = tf.TensorSpec([64, 2304])
        >>> plan_of(ipu_tf.ops.matmul, x, tf.TensorSpec([2304, 512])).tiles
    """
    if isinstance(target, tf.Tensor):
        return _plan_of_op(target.op)
    function = tf.function(lambda: target(*_placeholders(args), **_placeholders(kwargs)))
    graph = function.get_concrete_function().graph
    return _plan_of_op(next(op for op in graph.get_operations() if op.type in STOCK_OF))


def _placeholders(values: Any) -> Any:
    """Returns `values` with a graph input in place of every TensorSpec."""
    return tf.nest.map_structure(
        lambda value: (
            tf.raw_ops.Placeholder(dtype=value.dtype, shape=value.shape)
            if isinstance(value, tf.TensorSpec)
            else value
        ),
        values,
    )


def _plan_of_op(op: tf.Operation) -> Plan:
    if op.type not in STOCK_OF:
        raise ValueError(f"'{op.name}' is not a tile op. Received: an op of type {op.type}.")
    own = {name: op.get_attr(name) for name in ("plan", "serial")}
    texts = {name: op.get_attr(name).decode() for name in ("method", "partials")}
    return plan_from_attributes(STOCK_OF[op.type], own | texts)
