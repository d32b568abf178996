"""Joins a convolution or matmul with the bias and the ReLU after it, and their gradients.

TensorFlow's own graph optimiser does the same with stock ops, but knows none of ours. It runs at
the end of a trace, in place: the fused op is added, and what read the last op of the chain reads
the fused op. Values do not change: bias and ReLU are applied to the same rounded sums.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_tf._private import FuncGraph

_BIASED = {"IpuConv2D": "IpuConv2DBias", "IpuMatMul": "IpuMatMulBias"}
_FILTER_GRADIENT = "IpuConv2DBackpropFilter"
_FILTER_GRADIENT_WITH_BIAS = "IpuConv2DBackpropFilterWithBias"


@dataclass(frozen=True, slots=True)
class _Use:
    """One input of an op that reads a tensor."""

    op: tf.Operation
    index: int


class _Graph:
    """A graph's ops by what they read, and the tensors that were replaced.

    Args:
        graph: The graph, after a trace.
        outputs: The tensors that leave it.
    """

    def __init__(self, graph: FuncGraph, outputs: Sequence[Any]) -> None:
        self.graph = graph
        self.outputs = {id(value) for value in outputs}
        self.replaced: dict[int, tf.Tensor] = {}
        self.uses: dict[int, list[_Use]] = collections.defaultdict(list)
        for op in graph.get_operations():
            for index, tensor in enumerate(op.inputs):
                self.uses[id(tensor)].append(_Use(op, index))

    def only_use(self, tensor: tf.Tensor) -> _Use | None:
        """Returns the one use of a tensor that has no other and does not leave the graph."""
        uses = self.uses[id(tensor)]
        return uses[0] if len(uses) == 1 and id(tensor) not in self.outputs else None

    def replace(self, tensor: tf.Tensor, by: tf.Tensor) -> None:
        """Makes everything that reads `tensor` read `by`."""
        for use in self.uses[id(tensor)]:
            use.op._update_input(use.index, by)
        self.replaced[id(tensor)] = by

    def create(
        self, op_type: str, like: tf.Operation, inputs: Sequence[tf.Tensor], **attributes: Any
    ) -> tf.Operation:
        """Creates an op with the attributes of `like` and more."""
        attrs = {key: like.node_def.attr[key] for key in like.node_def.attr}
        return self.graph._create_op_internal(
            op_type, list(inputs), name=f"{like.name}_fused", attrs=attrs | attributes
        )


def fuse(graph: FuncGraph, outputs: Any) -> Any:
    """Joins what can be joined in `graph`.

    Args:
        graph: The graph of a traced function, in which nothing is being recorded.
        outputs: What the function returned, a structure.

    Returns:
        `outputs` with the tensors of fused ops in it.
    """
    flat = tf.nest.flatten(outputs, expand_composites=True)
    joined = _Graph(graph, flat)
    for op in graph.get_operations():
        if op.type in _BIASED:
            _fuse_bias(joined, op)
        elif op.type == _FILTER_GRADIENT:
            _fuse_bias_gradient(joined, op)
    flat = [joined.replaced.get(id(value), value) for value in flat]
    return tf.nest.pack_sequence_as(outputs, flat, expand_composites=True)


def _fuse_bias(joined: _Graph, op: tf.Operation) -> None:
    use = joined.only_use(op.outputs[0])
    if use is None or not _is_bias_add(use):
        return
    last = use.op
    relu = joined.only_use(last.outputs[0])
    is_relu = relu is not None and relu.op.type == "Relu"
    if relu is not None and is_relu:
        last = relu.op
    fused = joined.create(
        _BIASED[op.type],
        op,
        [*op.inputs, use.op.inputs[1]],
        relu=tf.compat.v1.AttrValue(b=is_relu),
    )
    joined.replace(last.outputs[0], fused.outputs[0])


def _is_bias_add(use: _Use) -> bool:
    return (
        use.op.type == "BiasAdd"
        and use.index == 0
        and use.op.get_attr("data_format") == b"NHWC"
        and use.op.inputs[0].dtype == tf.float32
    )


def _fuse_bias_gradient(joined: _Graph, op: tf.Operation) -> None:
    gradient = op.inputs[2]
    for use in joined.uses[id(gradient)]:
        bias = use.op
        if bias.type == "BiasAddGrad" and bias.get_attr("data_format") == b"NHWC":
            if gradient.dtype != tf.float32:
                return
            fused = joined.create(_FILTER_GRADIENT_WITH_BIAS, op, op.inputs)
            joined.replace(op.outputs[0], fused.outputs[0])
            joined.replace(bias.outputs[0], fused.outputs[1])
            return
