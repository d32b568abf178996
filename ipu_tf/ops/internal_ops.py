"""Operations about the program itself: prints, layouts, queues of earlier values, loop counts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

import tensorflow as tf

from ipu_tf.internals.graphs import loop_counter_of
from ipu_tf.ops.functions.program_variables import VariableScope

_ITERATION: ContextVar[tf.Tensor | None] = ContextVar("ipu_tf.iteration", default=None)


@tf.autograph.experimental.do_not_convert
def print_tensor(input: tf.Tensor, name: str = "") -> tf.Operation | None:
    """Prints a tensor on the standard error of the host.

    Args:
        input: A tensor.
        name: Printed before the values.

    Returns:
        The operation that prints, None in eager mode.
    """
    tensor = tf.convert_to_tensor(input)
    label = name or getattr(getattr(tensor, "op", None), "name", "tensor")
    return tf.print(f"{label}:", tensor, summarize=-1)


@tf.autograph.experimental.do_not_convert
def remap(x: tf.Tensor, name: str | None = None) -> tf.Tensor:
    """Returns `x`; the compiler chooses layouts on tiles by itself, so the hint has no effect."""
    return tf.identity(x, name=name)


@tf.autograph.experimental.do_not_convert
def remap_deduce(x: tf.Tensor, name: str | None = None) -> tf.Tensor:
    """Returns `x`; see `remap`."""
    return tf.identity(x, name=name)


@tf.autograph.experimental.do_not_convert
def fifo(x: tf.Tensor, depth: int, offload: bool = False, name: str | None = None) -> tf.Tensor:
    """Returns the value that `x` had `depth` executions of this operation ago, zeros before.

    Args:
        x: A tensor of static shape.
        depth: Number of executions, at least 1.
        offload: Whether the values wait in memory off the chip; accepted without effect.
        name: Name of the queue: calls with one name share it.

    Raises:
        ValueError: The depth is below 1, or the shape is not static.
    """
    del offload
    x = tf.convert_to_tensor(x)
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
        raise ValueError(f"fifo: depth must be a positive integer. Received: depth={depth!r}.")
    if not x.shape.is_fully_defined():
        raise ValueError(f"fifo: the tensor must have a static shape. Received: shape {x.shape}.")
    scope = VariableScope(name, "Fifo")
    with scope.opened([x]):
        shape = (depth, *x.shape.as_list())
        queue = scope.variable("values", shape, x.dtype, tf.zeros, trainable=False)
        position = scope.variable("position", (), tf.int32, tf.zeros, trainable=False)
        index = position.read_value()
        values = queue.read_value()
        oldest = tf.gather(values, index)
        # Not a scattered update: the whole queue is small, and every engine has `where`.
        here = tf.reshape(tf.equal(tf.range(depth), index), [depth, *(1 for _ in x.shape)])
        with tf.control_dependencies([oldest]):
            queue.assign(tf.where(here, x[tf.newaxis], values))
            position.assign((index + 1) % depth)
        return tf.stop_gradient(oldest)


@tf.autograph.experimental.do_not_convert
@contextlib.contextmanager
def numbered(iteration: tf.Tensor | None) -> Iterator[None]:
    """Makes `iteration` the number of the iteration for what is traced inside.

    Args:
        iteration: int32 scalar of the graph of a function that a loop calls; None leaves it to the
            loops of the graph.
    """
    token = _ITERATION.set(iteration)
    try:
        yield
    finally:
        _ITERATION.reset(token)


def get_current_iteration_counter(name: str | None = None, **kwargs: object) -> tf.Tensor:
    """Returns the number of the iteration of the innermost loop around, int32 from 0.

    In the stages of a pipeline it is the number of the micro-batch in a weight update.

    Args:
        name: Name of the operation.
        **kwargs: `lower_bound` and `upper_bound` of the number; accepted without effect.

    Raises:
        TypeError: There is another argument.
        ValueError: There is no loop around.
    """
    unknown = kwargs.keys() - {"lower_bound", "upper_bound"}
    if unknown:
        raise TypeError(
            "get_current_iteration_counter takes `name`, `lower_bound` and `upper_bound`. "
            f"Received: {', '.join(sorted(unknown))}."
        )
    counter = loop_counter_of(tf.compat.v1.get_default_graph(), _ITERATION.get())
    if counter is None:
        raise ValueError(
            "get_current_iteration_counter is called outside of a loop. Call it in the body of "
            "`loops.repeat`, `loops.while_loop` or tf.while_loop, or in a stage of a pipeline."
        )
    return tf.identity(counter, name=name)
