"""Fuses the gradient of a convolution's image with what follows it.

That is another gradient that is added, as where a residual block begins, and the gradient of a
ReLU; or, as the op is a transposed convolution, too, a bias and a ReLU. The gradient of an image
that was concatenated of several is computed part by part instead of as a whole that is cut
afterwards, and each part takes in what follows it. The sums are the same chains, so the numbers are
the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from ipu_tf.runtime.execution.fusion_graph import FusionGraph, TensorUse, attributes_of

_VECTOR = 16
"""Channels that are computed together: more of them than the whole takes would cost time."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Some channels of a gradient; none are all of them."""

    tensor: tf.Tensor
    first: int = 0
    channels: int = 0


def fuse_input_gradient(graph: FusionGraph, op: tf.Operation) -> None:
    """Fuses a gradient with what follows.

    Args:
        graph: The graph.
        op: An op of type IpuConv2DBackpropInput.
    """
    if op.outputs[0].dtype != tf.float32:
        return
    for part in _parts(graph, op) or [_Part(op.outputs[0])]:
        _fuse_part(graph, op, part)


def _fuse_part(graph: FusionGraph, op: tf.Operation, part: _Part) -> None:
    last, relu = part.tensor, False
    bias: list[tf.Tensor] = []
    addend: list[tf.Tensor] = []
    features: list[tf.Tensor] = []
    biased = graph.bias_add(last)
    if biased is not None:
        bias = [biased.inputs[1]]
        last, relu = graph.through_relu(biased.outputs[0])
    else:
        addition = graph.sum_with_another(last, "AddN")
        # Of two convolutions, the later one adds.
        if addition is not None and (
            addition[1].op.type != op.type or graph.is_before(addition[1], op.outputs)
        ):
            last, addend = addition[0], [addition[1]]
        gradient = graph.relu_gradient(last)
        if gradient is not None:
            last, features = gradient.outputs[0], [gradient.inputs[1]]
    if last is op.outputs[0]:
        return
    attributes = attributes_of(op)
    numbers = {
        "biases": len(bias),
        "addends": len(addend),
        "masks": len(features),
        "first_channel": part.first,
        "channels": part.channels,
    }
    attributes |= {name: tf.compat.v1.AttrValue(i=number) for name, number in numbers.items()}
    attributes["relu"] = tf.compat.v1.AttrValue(b=relu)
    inputs = [*op.inputs, *bias, *addend, *features]
    graph.fuse([last], "IpuConv2DBackpropInputFused", op, inputs, **attributes)


def _parts(graph: FusionGraph, op: tf.Operation) -> Sequence[_Part]:
    """Returns the parts of a gradient if nothing else reads it, and they cost no more than it."""
    whole, filter_ = op.outputs[0], op.inputs[1]
    if graph.is_output(whole) or not (
        whole.shape.is_fully_defined() and filter_.shape.is_fully_defined()
    ):
        return []
    uses = [use for use in graph.uses(whole) if graph.is_needed(use.op)]
    parts = [_part(use) for use in uses]
    known = [part for part in parts if part is not None]
    is_one_group = filter_.shape[2] == whole.shape[3]
    if len(known) < len(parts) or not is_one_group:
        return []
    vectors = sum(_vectors(part.channels) for part in known)
    return known if vectors <= _vectors(whole.shape[3]) else []


def _part(use: TensorUse) -> _Part | None:
    """Returns the part of an image that a use cuts out, None if it is not some channels."""
    if use.op.type != "Slice" or use.index != 0:
        return None
    whole, part, begin = use.op.inputs[0], use.op.outputs[0], use.op.inputs[1]
    shape = part.shape
    if not shape.is_fully_defined() or shape[:3] != whole.shape[:3] or shape[3] == whole.shape[3]:
        return None
    first = tf.get_static_value(begin)
    if first is not None:
        return _Part(part, int(first[3]), shape[3])
    if begin.op.type != "ConcatOffset":
        return None
    # As the parts are smaller than the whole in channels alone, these were concatenated.
    before = [tf.get_static_value(each) for each in begin.op.inputs[1 : 1 + begin.value_index]]
    known = [int(each[3]) for each in before if each is not None]
    return _Part(part, sum(known), shape[3]) if len(known) == len(before) else None


def _vectors(channels: int) -> int:
    return -(-channels // _VECTOR)
