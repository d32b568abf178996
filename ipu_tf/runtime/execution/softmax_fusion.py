"""Fuses softmax with the dropout of its result, and the gradients of both.

The scores of an attention are many times as large as its inputs, and each op reads and writes them.
Fused, softmax and dropout are one pass over rows that stay in the cache, and so are the gradients.
The loss of a classifier, which has a softmax inside, is replaced where it has many scores, and so
are the softmax and the choice of the largest score where each row has few.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ipu_tf.runtime.execution.fusion_graph import FusionGraph, attributes_of
from ipu_tf.runtime.execution.op_patterns import find

_MANY_SCORES = 1 << 16
_FEW_COLUMNS = 32
_IS_NEGATIVE = ("Less", ("BitwiseAnd", ("Bitcast", "scores"), np.iinfo(np.int32).min), 0)
_WITH_ORDERED_ZEROS = (
    "SelectV2",
    ("LogicalAnd", ("Equal", "scores", 0.0), _IS_NEGATIVE),
    -np.finfo(np.float32).tiny,
    "scores",
)
"""What Keras chooses the largest of: -0 is below 0."""
_MASKS = frozenset({"IpuDropoutMask", "IpuStatefulDropoutMask"})


def fuse_dropout(
    graph: FusionGraph, op: tf.Operation, value: tf.Tensor, mask: tf.Tensor, scale: tf.Tensor
) -> bool:
    """Fuses a softmax with its dropout; returns whether that is what an op ends.

    Args:
        graph: The graph.
        op: The last op of a dropout.
        value: What is dropped.
        mask: What is kept, of the shape of `value`.
        scale: The factor of what is kept, a scalar.
    """
    softmax = value.op
    if softmax.type != "Softmax" or value.dtype != tf.float32:
        return False
    if mask.op.type not in _MASKS or _reads(mask.op, softmax):
        return False
    graph.fuse(
        [value, op.outputs[0]], "IpuSoftmaxDropout", softmax, [softmax.inputs[0], mask, scale]
    )
    return True


def fuse_gradient(
    graph: FusionGraph, op: tf.Operation, last: tf.Operation, softmax: tf.Tensor
) -> None:
    """Fuses `(grad - sum(grad * softmax)) * softmax`, and the gradient of a dropout before it.

    Args:
        graph: The graph.
        op: The difference.
        last: The product.
        softmax: Its factor that is not the difference.
    """
    grad, sums = op.inputs
    is_sum = sums.op.type == "Sum" and sums.op.get_attr("keep_dims") and graph.only_use(sums)
    if not is_sum or not softmax.shape.is_fully_defined() or grad.shape != softmax.shape:
        return
    product, axes = sums.op.inputs
    is_last = tf.get_static_value(axes) in (-1, grad.shape.rank - 1)
    if product.op.type != "Mul" or graph.only_use(product) is None or not is_last:
        return
    if {id(factor) for factor in product.op.inputs} != {id(grad), id(softmax)}:
        return
    readers = {id(use.op) for use in graph.uses(grad)}
    alone = readers == {id(op), id(product.op)} and not graph.is_output(grad)
    if grad.op.type == "IpuMaskedScale" and alone:
        graph.fuse(last.outputs, "IpuSoftmaxDropoutGrad", last, [softmax, *grad.op.inputs])
    else:
        graph.fuse(last.outputs, "IpuSoftmaxGrad", last, [softmax, grad])


def replace_loss(graph: FusionGraph, op: tf.Operation) -> None:
    """Replaces the loss of many scores by a faster kernel.

    XLA compiles that of a few together with what surrounds it.

    Args:
        graph: The graph.
        op: An op of type SparseSoftmaxCrossEntropyWithLogits.
    """
    if _has_many_scores(op):
        graph.fuse(op.outputs, "IpuSparseSoftmaxLoss", op, op.inputs, **attributes_of(op))


def replace_softmax(graph: FusionGraph, op: tf.Operation) -> None:
    """Replaces the softmax of many rows of few scores; those that dropout may follow stay.

    Args:
        graph: The graph.
        op: An op of type Softmax.
    """
    is_factor = any(use.op.type == "Mul" for use in graph.uses(op.outputs[0]))
    if _has_many_scores(op) and op.inputs[0].shape[-1] <= _FEW_COLUMNS and not is_factor:
        graph.fuse(op.outputs, "IpuSoftmax", op, op.inputs, **attributes_of(op))


def replace_largest(graph: FusionGraph, op: tf.Operation) -> None:
    """Replaces the choice of the largest of few scores, for many rows.

    Args:
        graph: The graph.
        op: An op of type ArgMax.
    """
    scores, axis = op.inputs
    if not _has_many_scores(op) or scores.shape[-1] > _FEW_COLUMNS:
        return
    if tf.get_static_value(axis) not in (-1, scores.shape.rank - 1):
        return
    attributes = attributes_of(op)
    kept = {name: attributes[name] for name in ("T", "output_type")}
    ordered = find(scores, _WITH_ORDERED_ZEROS, {})
    graph.fuse(
        op.outputs,
        "IpuArgMax",
        op,
        [scores if ordered is None else ordered["scores"]],
        signed_zeros=tf.compat.v1.AttrValue(b=ordered is not None),
        **kept,
    )


def _has_many_scores(op: tf.Operation) -> bool:
    scores = op.inputs[0]
    return scores.dtype == tf.float32 and (scores.shape.num_elements() or 0) >= _MANY_SCORES


def _reads(op: tf.Operation, source: tf.Operation) -> bool:
    """Returns whether an op needs what another gives."""
    worklist, names = [op], {op.name}
    while worklist:
        inputs = [tensor.op for tensor in worklist.pop().inputs]
        if source in inputs:
            return True
        worklist += [each for each in inputs if each.name not in names]
        names |= {each.name for each in inputs}
    return False
