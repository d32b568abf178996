"""Sums of gradients over executions, for optimizers that a script writes itself."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from ipu_tf.ops.functions.program_variables import VariableScope

_OF_GRAPH = "_ipu_tf_accumulations"


@dataclass(frozen=True, slots=True)
class Accumulation:
    """What `ipu_stateful_gradient_accumulate` has made.

    Args:
        total: Its result.
        is_done: Whether the sum is complete, a bool scalar.
        executions: The executions of a sum.
    """

    total: tf.Tensor
    is_done: tf.Tensor
    executions: int


@tf.autograph.experimental.do_not_convert
def ipu_stateful_gradient_accumulate(
    input: tf.Tensor, num_mini_batches: int, verify_usage: bool = True, name: str | None = None
) -> tf.Tensor:
    """Returns the sum of `input` over some executions in the last of them, and zeros before.

    Updates of gradient descent and momentum that take the result, or what is computed of it, leave
    their variables as they are until the sum is complete.

    Args:
        input: A tensor of static shape.
        num_mini_batches: Executions of one sum; at least 1.
        verify_usage: Has no effect here.
        name: Name of the operation.

    Raises:
        ValueError: `num_mini_batches` is less than 1, or the shape is not static.
    """
    del verify_usage
    input = tf.convert_to_tensor(input)
    is_number = isinstance(num_mini_batches, int) and not isinstance(num_mini_batches, bool)
    if not is_number or num_mini_batches < 1:
        raise ValueError(
            "ipu_stateful_gradient_accumulate: num_mini_batches must be a positive integer. "
            f"Received: num_mini_batches={num_mini_batches!r}."
        )
    if not input.shape.is_fully_defined():
        raise ValueError(
            "ipu_stateful_gradient_accumulate: the tensor must have a static shape. "
            f"Received: shape {input.shape}."
        )
    scope = VariableScope(name, "GradientAccumulator")
    with scope.opened([input]):
        sum_variable = scope.variable(
            "sum", input.shape.as_list(), input.dtype, tf.zeros, trainable=False
        )
        step = scope.variable("step", (), tf.int32, tf.zeros, trainable=False)
        number, total = step.read_value(), sum_variable.read_value() + input
        is_done = tf.equal(number, num_mini_batches - 1)
        zeros = tf.zeros_like(total)
        with tf.control_dependencies([number, total]):
            changes = [
                sum_variable.assign(tf.where(is_done, zeros, total)),
                step.assign(tf.where(is_done, 0, number + 1)),
            ]
        with tf.control_dependencies(changes):
            result = tf.where(is_done, total, zeros)
    graph = tf.compat.v1.get_default_graph()
    # A collection would be written to the meta graphs of savers.
    accumulations = (*accumulations_in(graph), Accumulation(result, is_done, num_mini_batches))
    setattr(graph, _OF_GRAPH, accumulations)
    return result


def accumulations_in(graph: tf.Graph) -> tuple[Accumulation, ...]:
    """Returns the accumulations that a graph has."""
    accumulations: tuple[Accumulation, ...] = getattr(graph, _OF_GRAPH, ())
    return accumulations
