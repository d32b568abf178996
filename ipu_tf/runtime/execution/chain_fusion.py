"""Fuses chains of element-wise ops of optimizers.

Each op of such a chain reads and writes a tensor as large as the weights. Fused, a chain is one
pass.
"""

from __future__ import annotations

import tensorflow as tf

from ipu_tf.runtime.execution import softmax_fusion
from ipu_tf.runtime.execution.fusion_graph import FusionGraph


def fuse_difference(graph: FusionGraph, op: tf.Operation) -> None:
    """Fuses what follows a difference: the gradient of a softmax, or a product with a scalar.

    Args:
        graph: The graph.
        op: An op of type Sub.
    """
    use = graph.only_use(op.outputs[0])
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
    fused_op = graph.create(
        "IpuScaledDifference",
        last,
        [a.op.inputs[0] if square else a, b, factor],
        square=tf.compat.v1.AttrValue(b=square),
    )
    graph.replace(last.outputs[0], fused_op.outputs[0])


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
        fused_op = graph.create("IpuAdamStep", op, [mean, square, rate, epsilon])
        graph.replace(op.outputs[0], fused_op.outputs[0])


def _with_scalar_last(op: tf.Operation) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the two inputs of an op, a scalar after what it is not."""
    first, second = op.inputs
    return (second, first) if first.shape.rank == 0 else (first, second)


def _same_known_shape(a: tf.Tensor, b: tf.Tensor) -> bool:
    return bool(a.shape.is_fully_defined() and a.shape == b.shape)
