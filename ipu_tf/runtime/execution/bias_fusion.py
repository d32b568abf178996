"""Fuses products of rows by one matrix with the biases that are added after a reshape.

A dense layer of sequences makes rows of them, multiplies, and makes sequences of the rows before it
adds the bias; an attention gives each row the shape of its heads, and so it does the bias. Fused,
the bias is added to the sums that are still in registers or caches. It is added to the same rounded
sums, so the numbers are the same bits.
"""

from __future__ import annotations

import tensorflow as tf

from ipu_tf.runtime.execution.fusion_graph import FusionGraph, TensorUse, attributes_of

_TRANSPOSED = {
    "transpose_a": "adj_x",
    "transpose_b": "adj_y",
    "grad_a": "grad_x",
    "grad_b": "grad_y",
}
"""The attributes of IpuMatMul that IpuBatchMatMul calls otherwise."""


def fuse_reshaped_bias(graph: FusionGraph, op: tf.Operation) -> bool:
    """Fuses a product with the bias after it, or after a reshape, and with the ReLU after that.

    Returns whether there is one.

    Args:
        graph: The graph.
        op: An op of type IpuBatchMatMul or IpuMatMul.
    """
    product = op.outputs[0]
    if product.dtype != tf.float32 or not _is_of_rows(op):
        return False
    reshape = graph.only_reader(product, "Reshape")
    use = graph.only_use(product if reshape is None else reshape.outputs[0])
    bias = None if use is None else _bias(use, product.shape[-1])
    if use is None or bias is None:
        return False
    last, is_relu = graph.through_relu(use.op.outputs[0])
    attributes = {_TRANSPOSED.get(key, key): value for key, value in attributes_of(op).items()}
    graph.fuse(
        [last],
        "IpuReshapedMatMulBias",
        op,
        [*op.inputs, bias],
        **attributes,
        relu=tf.compat.v1.AttrValue(b=is_relu),
        shape=tf.compat.v1.AttrValue(shape=last.shape.as_proto()),
    )
    return True


def _is_of_rows(op: tf.Operation) -> bool:
    """Returns whether all rows of the first operand are multiplied by one matrix."""
    x, y = (tensor.shape for tensor in op.inputs)
    is_static = x.is_fully_defined() and y.is_fully_defined()
    return bool(is_static and y.rank == 2 and (x.rank == 2 or not op.get_attr("adj_x")))


def _bias(use: TensorUse, columns: int) -> tf.Tensor | None:
    """Returns the bias of as many columns that a use of a tensor adds, None for other uses."""
    if use.op.type == "BiasAdd" and use.op.get_attr("data_format") != b"NHWC":
        return None
    if use.op.type not in {"AddV2", "BiasAdd"}:
        return None
    to, bias = use.op.inputs[use.index], use.op.inputs[1 - use.index]
    if not to.shape.is_fully_defined() or not bias.shape.is_fully_defined():
        return None
    rank = bias.shape.rank
    is_trailing = 0 < rank < to.shape.rank and to.shape[-rank:] == bias.shape
    return bias if is_trailing and bias.shape.num_elements() == columns else None
