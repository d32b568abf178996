"""Fuses ops that follow each other, so that a tensor is read and written once.

A convolution or matmul takes in the bias and the ReLU after it, and the gradient of its weights
that of the bias; TensorFlow's own graph optimiser does some of this with stock ops, but knows none
of ours. The gradient of max pooling takes in that of the ReLU before it; `gradient_fusion`
handles the gradients of inputs, `dropout_fusion` dropout, `softmax_fusion` softmax,
`norm_fusion` batch normalization and the sum after it, `layer_norm_fusion` and `batch_norm_of_rows`
layer normalization, `gelu_fusion` Gaussian error linear units, `chain_fusion` updates of Adam,
`product_fusion` transposes around products, `bias_fusion` biases of products that are reshaped,
`segment_fusion` sums over segments, `sum_fusion` sums over first dimensions, `swapped_rows`
transposes of the first two, `recurrent_fusion` whole loops of recurrent layers, `repeated_scalars`
equal scalars.

Fusion runs at the end of a trace, in place: it adds the fused op and redirects the readers of the
chain's last op to it. The arithmetic of products does not change: it runs on the same rounded sums;
normalization, softmax, gradients of biases and of loops may add up in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar, cast

import tensorflow as tf

from ipu_tf.internals.tensorflow import FuncGraph
from ipu_tf.runtime.execution import (
    batch_norm_of_rows,
    bias_fusion,
    chain_fusion,
    dropout_fusion,
    gelu_fusion,
    gradient_fusion,
    layer_norm_fusion,
    norm_fusion,
    product_fusion,
    recurrent_fusion,
    repeated_scalars,
    segment_fusion,
    softmax_fusion,
    sum_fusion,
    swapped_rows,
)
from ipu_tf.runtime.execution.fusion_graph import FusionGraph, attributes_of
from ipu_tf.runtime.tracing.call_ops import LOOPS

_T = TypeVar("_T")

_MANY_GRADIENTS = 1 << 16
_BIAS_OPS = {"IpuConv2D": "IpuConv2DBias", "IpuMatMul": "IpuMatMulBias"}


def fuse(graph: FuncGraph, outputs: _T, *, loops: bool = True) -> _T:
    """Fuses all chains of ops in `graph` that can be fused.

    Args:
        graph: The graph of a traced function, in which nothing is being recorded.
        outputs: The results of the function, a structure.
        loops: Whether to fuse loops: not if their steps may be run once more, one by one.

    Returns:
        `outputs` with the tensors of fused ops.
    """
    flat = tf.nest.flatten(outputs, expand_composites=True)
    fusion_graph = FusionGraph(graph, flat)
    for op in graph.get_operations():
        is_fused = bool(op.outputs) and all(map(fusion_graph.is_replaced, op.outputs))
        if op.type in _RULES and not is_fused and (loops or op.type not in LOOPS):
            _RULES[op.type](fusion_graph, op)
    sum_fusion.replace_column_sums(fusion_graph)
    swapped_rows.replace_transposes(fusion_graph)
    repeated_scalars.share_scalars(fusion_graph)
    flat = [fusion_graph.current(value) for value in flat]
    return cast(_T, tf.nest.pack_sequence_as(outputs, flat, expand_composites=True))


def _fuse_matmul(graph: FusionGraph, op: tf.Operation) -> None:
    # To add a bias apart takes less than to transpose a matrix.
    rules = (product_fusion.fuse_transposes, _fuse_bias, bias_fusion.fuse_reshaped_bias)
    if not any(rule(graph, op) for rule in rules):
        gradient_fusion.fuse_gradient(graph, op)


def _fuse_batch_matmul(graph: FusionGraph, op: tf.Operation) -> None:
    if not product_fusion.fuse_transposes(graph, op):
        bias_fusion.fuse_reshaped_bias(graph, op)


def _fuse_convolution(graph: FusionGraph, op: tf.Operation) -> None:
    """Fuses a bias and a ReLU, or the gradient of a ReLU before a transposed convolution."""
    if _fuse_bias(graph, op) or op.outputs[0].dtype != tf.float32:
        return
    relu = graph.only_reader(op.outputs[0], "ReluGrad")
    if relu is not None:
        inputs = [*op.inputs, relu.inputs[1]]
        graph.fuse(relu.outputs, "IpuConv2DReluGrad", op, inputs, **attributes_of(op))


def _fuse_bias(graph: FusionGraph, op: tf.Operation) -> bool:
    """Fuses a bias, and a ReLU after it; returns whether there is one."""
    biased = graph.bias_add(op.outputs[0])
    if biased is None:
        return False
    last, is_relu = graph.through_relu(biased.outputs[0])
    graph.fuse(
        [last],
        _BIAS_OPS[op.type],
        op,
        [*op.inputs, biased.inputs[1]],
        **attributes_of(op),
        relu=tf.compat.v1.AttrValue(b=is_relu),
    )
    return True


def _fuse_bias_gradient(graph: FusionGraph, op: tf.Operation) -> None:
    gradient = op.inputs[2]
    for use in graph.uses(gradient):
        bias = use.op
        if bias.type == "BiasAddGrad" and bias.get_attr("data_format") == b"NHWC":
            if gradient.dtype != tf.float32:
                return
            graph.fuse(
                [op.outputs[0], bias.outputs[0]],
                "IpuConv2DBackpropFilterWithBias",
                op,
                op.inputs,
                **attributes_of(op),
            )
            return


def _replace_bias_gradient(graph: FusionGraph, op: tf.Operation) -> None:
    gradient = op.inputs[0]
    is_known = gradient.dtype in (tf.float32, tf.float16) and gradient.shape.is_fully_defined()
    if not is_known or gradient.shape.num_elements() < _MANY_GRADIENTS:
        return
    # That of a convolution joins the gradient of its filter.
    joins = gradient.dtype == tf.float32 and any(
        use.op.type == "IpuConv2DBackpropFilter" and use.index == 2 for use in graph.uses(gradient)
    )
    if op.get_attr("data_format") == b"NHWC" and not joins:
        graph.fuse(op.outputs, "IpuBiasAddGrad", op, op.inputs, **attributes_of(op))


def _fuse_pool_gradient(graph: FusionGraph, op: tf.Operation) -> None:
    is_plain = op.get_attr("data_format") == b"NHWC" and op.get_attr("padding") != b"EXPLICIT"
    kernel, strides = op.get_attr("ksize"), op.get_attr("strides")
    within_images = kernel[0] == kernel[3] == strides[0] == strides[3] == 1
    # Where windows overlap, gradients in float16 would be rounded at each addition.
    are_apart = all(step >= size for step, size in zip(strides, kernel, strict=True))
    dtype = op.inputs[0].dtype
    is_exact = dtype == tf.float32 or (dtype == tf.float16 and are_apart)
    if not is_plain or not within_images or not is_exact:
        return
    relu = graph.only_reader(op.outputs[0], "ReluGrad")
    is_relu = relu is not None and relu.inputs[1] is op.inputs[0]
    last = relu if relu is not None and is_relu else op
    relu_attribute = tf.compat.v1.AttrValue(b=is_relu)
    graph.fuse(
        last.outputs, "IpuMaxPoolGrad", op, op.inputs, **attributes_of(op), relu=relu_attribute
    )


def _replace_relu6_gradient(graph: FusionGraph, op: tf.Operation) -> None:
    if op.inputs[0].dtype == tf.float32:
        graph.fuse(op.outputs, "IpuRelu6Grad", op, op.inputs)


def _fuse_selection(graph: FusionGraph, op: tf.Operation) -> None:
    if not segment_fusion.fuse_rows(graph, op):
        dropout_fusion.fuse_product_then_selection(graph, op)


def _fuse_sum(graph: FusionGraph, op: tf.Operation) -> None:
    rules = (
        chain_fusion.fuse_moving_mean,
        chain_fusion.fuse_momentum,
        chain_fusion.fuse_velocity,
        chain_fusion.fuse_accumulation,
    )
    if not any(rule(graph, op) for rule in rules):
        norm_fusion.fuse_scale_and_shift(graph, op)


_RULES: Mapping[str, Callable[[FusionGraph, tf.Operation], None]] = MappingProxyType(
    {
        "ArgMax": softmax_fusion.replace_largest,
        "BiasAddGrad": _replace_bias_gradient,
        "IpuBatchMatMul": _fuse_batch_matmul,
        "IpuConv2D": _fuse_convolution,
        "IpuConv2DBackpropFilter": _fuse_bias_gradient,
        "IpuConv2DBackpropInput": gradient_fusion.fuse_gradient,
        "IpuMatMul": _fuse_matmul,
        "MaxPoolGrad": _fuse_pool_gradient,
        "Relu6Grad": _replace_relu6_gradient,
        "GreaterEqual": dropout_fusion.fuse_mask,
        "SelectV2": _fuse_selection,
        "Mul": dropout_fusion.fuse_selection_then_product,
        **dict.fromkeys(gelu_fusion.CURVES, gelu_fusion.fuse_gelu),
        "Rsqrt": layer_norm_fusion.fuse_layer_norm,
        "FusedBatchNormV3": batch_norm_of_rows.fuse_batch_norm,
        "SquaredDifference": norm_fusion.fuse_moments,
        "AddV2": _fuse_sum,
        "Sum": norm_fusion.fuse_sums,
        "AddN": norm_fusion.fuse_gradient,
        "Sub": chain_fusion.fuse_difference,
        "RealDiv": chain_fusion.fuse_adam_step,
        "Softmax": softmax_fusion.replace_softmax,
        "SparseSoftmaxCrossEntropyWithLogits": softmax_fusion.replace_loss,
        "UnsortedSegmentSum": segment_fusion.fuse_sum,
        **dict.fromkeys(LOOPS, recurrent_fusion.fuse_loop),
    }
)
"""The patterns that an op can join, by the type of the first or last op of a chain."""
