"""Fuses chains of element-wise ops of optimizers, and of sums over micro-batches.

Each op of such a chain reads and writes a tensor as large as the weights. Fused, a chain is one
pass. Weights, or sums, whose gradient is a product are updated where its sums are complete, block
by block: the gradient is never written.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from ipu_tf.runtime.execution import softmax_fusion
from ipu_tf.runtime.execution.fusion_graph import FusionGraph, attributes_of

_ASSIGNMENT = "AssignVariableOp"
_PRODUCTS = frozenset({"IpuMatMul", "IpuMatMulFused"})


def fuse_difference(graph: FusionGraph, op: tf.Operation) -> None:
    """Fuses a difference with its use: gradients of softmax, products with scalars, assignments.

    Args:
        graph: The graph.
        op: An op of type Sub.
    """
    use = graph.only_use(op.outputs[0])
    if use is not None and use.op.type == _ASSIGNMENT:
        _fuse_update(graph, op)
        return
    if use is None or use.op.type != "Mul" or op.outputs[0].dtype != tf.float32:
        return
    other = use.op.inputs[1 - use.index]
    if other.shape.rank == 0:
        _fuse_scaled_difference(graph, op, use.op, other)
    else:
        softmax_fusion.fuse_gradient(graph, op, use.op, other)


def _fuse_scaled_difference(
    graph: FusionGraph, op: tf.Operation, last: tf.Operation, factor: tf.Tensor
) -> None:
    a, b = op.inputs
    if not _same_known_shape(a, b) or a.shape.rank == 0:
        return
    square = a.op.type == "Square" and graph.only_use(a) is not None
    graph.fuse(
        [last.outputs[0]],
        "IpuScaledDifference",
        last,
        [a.op.inputs[0] if square else a, b, factor],
        square=tf.compat.v1.AttrValue(b=square),
    )


def _fuse_update(graph: FusionGraph, op: tf.Operation) -> None:
    """Fuses the assignment of weights less a step of Adam, or a gradient times a rate."""
    weights, step = op.inputs
    if not _is_own_step(graph, weights, step):
        return
    if step.op.type == "IpuAdamStep":
        _replace_by_update(graph, op, weights, "IpuAdamUpdate", [weights, *step.op.inputs])
    elif step.op.type == "Mul":
        _fuse_descent(graph, op, weights, *_with_scalar_last(step.op))


def fuse_momentum(graph: FusionGraph, op: tf.Operation) -> bool:
    """Fuses the assignment of `-gradient * rate + velocity`; returns whether it is one.

    Args:
        graph: The graph.
        op: An op of type AddV2.
    """
    step, velocity = op.inputs
    if not _is_assigned(graph, op) or not _is_own_step(graph, velocity, step):
        return False
    if step.op.type != "Mul":
        return False
    negative, rate = _with_scalar_last(step.op)
    if negative.op.type != "Neg" or graph.only_use(negative) is None:
        return False
    return _fuse_descent(graph, op, velocity, negative.op.inputs[0], rate)


def fuse_velocity(graph: FusionGraph, op: tf.Operation) -> bool:
    """Fuses the assignment of weights and their updated velocity; returns whether it is one.

    XLA then updates the weights where they lie, after all that reads them: an execution that a
    check of its data ends leaves them whole.

    Args:
        graph: The graph.
        op: An op of type AddV2.
    """
    weights, velocity = op.inputs
    if not _is_assigned(graph, op) or velocity.op.type != "ReadVariableOp":
        return False
    if weights.dtype != tf.float32 or weights.shape.rank == 0:
        return False
    if not _same_known_shape(weights, velocity):
        return False
    inputs = [weights, velocity, graph.constant(-1.0, op)]
    _replace_by_update(graph, op, weights, "IpuScaledUpdate", inputs)
    return True


def fuse_accumulation(graph: FusionGraph, op: tf.Operation) -> bool:
    """Fuses the assignment of a variable plus a gradient; returns whether it is one.

    The gradient is a product, or anything times a scalar. The sum has the bits of a step of
    gradient descent at the rate of the negative scalar, or of -1.

    Args:
        graph: The graph.
        op: An op of type AddV2.
    """
    total, summand = op.inputs
    if not _is_assigned(graph, op) or total.op.type != "ReadVariableOp":
        return False
    if not _is_own_step(graph, total, summand):
        return False
    if _is_plain_product(summand.op):
        return _fuse_descent(graph, op, total, summand, graph.constant(-1.0, op))
    if summand.op.type != "Mul":
        return False
    gradient, factor = _with_scalar_last(summand.op)
    if factor.shape.rank != 0 or gradient.shape != total.shape:
        return False
    rate = graph.create("Neg", op, [factor], T=attributes_of(summand.op)["T"]).outputs[0]
    graph.mark_inner([rate])
    return _fuse_descent(graph, op, total, gradient, rate)


def _fuse_descent(
    graph: FusionGraph,
    op: tf.Operation,
    weights: tf.Tensor,
    gradient: tf.Tensor,
    rate: tf.Tensor,
) -> bool:
    """Fuses weights less a gradient times a scalar; returns whether it is one."""
    if rate.shape.rank != 0 or gradient.shape != weights.shape:
        return False
    if _is_plain_product(gradient.op) and graph.only_use(gradient) is not None:
        inputs = [*gradient.op.inputs, weights, rate]
        attributes = attributes_of(gradient.op)
        _replace_by_update(graph, op, weights, "IpuMatMulUpdate", inputs, **attributes)
    else:
        _replace_by_update(graph, op, weights, "IpuScaledUpdate", [weights, gradient, rate])
    return True


def _replace_by_update(
    graph: FusionGraph,
    op: tf.Operation,
    weights: tf.Tensor,
    op_type: str,
    inputs: Sequence[tf.Tensor],
    **attributes: tf.compat.v1.AttrValue,
) -> None:
    """Replaces an op by the update of weights where they lie, after what else reads them."""
    after = _products_before(graph, op, weights)
    count = tf.compat.v1.AttrValue(i=len(after))
    graph.fuse([op.outputs[0]], op_type, op, [*inputs, *after], N=count, **attributes)


def _products_before(
    graph: FusionGraph, update: tf.Operation, weights: tf.Tensor
) -> list[tf.Tensor]:
    """Returns products by weights before their update: so XLA need not copy the weights for them.

    What nothing else needs is left out: it would run for the update alone.
    """
    users = weights.op.inputs[0].consumers() if weights.op.type == "ReadVariableOp" else []
    reads = [op.outputs[0] for op in users if op.type == "ReadVariableOp"]
    readers = [use.op for read in reads for use in graph.uses(read) if use.op.type in _PRODUCTS]
    return [op.outputs[0] for op in readers if graph.runs_before(op, update)]


def fuse_moving_mean(graph: FusionGraph, op: tf.Operation) -> bool:
    """Fuses the assignment of `mean + (value - mean) * factor`; returns whether it is one.

    Args:
        graph: The graph.
        op: An op of type AddV2.
    """
    mean, step = op.inputs
    difference = step.op
    if not _is_assigned(graph, op) or not _is_own_step(graph, mean, step):
        return False
    if difference.type != "IpuScaledDifference" or difference.inputs[1] is not mean:
        return False
    square, add = attributes_of(difference)["square"], tf.compat.v1.AttrValue(b=True)
    graph.fuse(
        [op.outputs[0]], "IpuScaledDifference", op, difference.inputs, square=square, add=add
    )
    return True


def _is_assigned(graph: FusionGraph, op: tf.Operation) -> bool:
    """Returns whether an assignment is the only reader of an op."""
    use = graph.only_use(op.outputs[0])
    return use is not None and use.op.type == _ASSIGNMENT


def _is_own_step(graph: FusionGraph, variable: tf.Tensor, step: tf.Tensor) -> bool:
    """Returns whether a step of an optimizer for a variable has no other readers."""
    is_alone = graph.only_use(step) is not None
    return is_alone and step.dtype == tf.float32 and _same_known_shape(variable, step)


def _is_plain_product(op: tf.Operation) -> bool:
    return op.type == "IpuMatMul" and op.get_attr("rounding") == b"nearest"


def fuse_adam_step(graph: FusionGraph, op: tf.Operation) -> None:
    """Fuses `mean * rate / (sqrt(square) + epsilon)`.

    Args:
        graph: The graph.
        op: An op of type RealDiv.
    """
    scaled, total = op.inputs
    if scaled.op.type != "Mul" or total.op.type != "AddV2" or scaled.dtype != tf.float32:
        return
    if graph.only_use(scaled) is None or graph.only_use(total) is None:
        return
    mean, rate = _with_scalar_last(scaled.op)
    root, epsilon = _with_scalar_last(total.op)
    if root.op.type != "Sqrt" or graph.only_use(root) is None:
        return
    square = root.op.inputs[0]
    scalars = rate.shape.rank == epsilon.shape.rank == 0
    if scalars and _same_known_shape(mean, square) and mean.shape.rank != 0:
        graph.fuse([op.outputs[0]], "IpuAdamStep", op, [mean, square, rate, epsilon])


def _with_scalar_last(op: tf.Operation) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the two inputs of an op, a scalar after what it is not."""
    first, second = op.inputs
    return (second, first) if first.shape.rank == 0 else (first, second)


def _same_known_shape(a: tf.Tensor, b: tf.Tensor) -> bool:
    return bool(a.shape.is_fully_defined() and a.shape == b.shape)
