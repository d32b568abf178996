"""Fuses softmax with the dropout of its result, and the gradients of both.

The scores of an attention are many times as large as its inputs, and each op reads and writes them.
Fused, softmax and dropout are one pass over rows that stay in the cache, and so are the gradients.
The loss of a classifier, which has a softmax inside, is replaced where it is large.
"""

from __future__ import annotations

import tensorflow as tf

from ipu_tf.runtime.execution.fusion_graph import FusionGraph, attributes_of

_MANY_SCORES = 1 << 16
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
    if softmax.type != "Softmax" or mask.op.type not in _MASKS or _reads(mask.op, softmax):
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
    scores = op.inputs[0]
    if scores.dtype == tf.float32 and (scores.shape.num_elements() or 0) >= _MANY_SCORES:
        graph.fuse(op.outputs, "IpuSparseSoftmaxLoss", op, op.inputs, **attributes_of(op))


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
