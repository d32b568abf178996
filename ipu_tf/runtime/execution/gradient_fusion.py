"""Fuses the gradient of a layer's input, a product, with what follows it.

That is another gradient that is added, as where a residual block begins, and the gradient of a
ReLU; after a transposed convolution, which is the same op, a bias and a ReLU. The gradient of an
input that was concatenated of several is computed part by part instead of as a whole that is cut
afterwards, and each part takes in what follows it. The sums are the same chains, so the numbers are
the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import tensorflow as tf

from ipu_tf.runtime.execution.fusion_graph import FusionGraph, TensorUse, attributes_of

_VECTOR = 16
"""Channels that are computed together: more of them than the whole takes would cost time."""


@dataclass(frozen=True, slots=True)
class _Joined:
    """A joined op, and its attributes that name the part."""

    op_type: str
    first: str
    size: str


_JOINED: Mapping[str, _Joined] = MappingProxyType(
    {
        "IpuConv2DBackpropInput": _Joined(
            "IpuConv2DBackpropInputFused", "first_channel", "channels"
        ),
        "IpuMatMul": _Joined("IpuMatMulFused", "first_column", "columns"),
    }
)


@dataclass(frozen=True, slots=True)
class _Part:
    """Some channels of a gradient; of the size 0, all of them."""

    tensor: tf.Tensor
    first: int = 0
    size: int = 0


def fuse_gradient(graph: FusionGraph, op: tf.Operation) -> None:
    """Fuses a gradient with what follows.

    Args:
        graph: The graph.
        op: An op of type IpuConv2DBackpropInput or IpuMatMul.
    """
    if op.outputs[0].dtype != tf.float32:
        return
    for part in _parts(graph, op) or [_Part(op.outputs[0])]:
        _fuse_part(graph, op, part)


def _fuse_part(graph: FusionGraph, op: tf.Operation, part: _Part) -> None:
    joined = _JOINED[op.type]
    last, addends, masks = _after(graph, op, part.tensor)
    others = {"addends": addends, "masks": masks}
    attributes = attributes_of(op)
    if op.type == "IpuConv2DBackpropInput":
        biased = graph.bias_add(part.tensor)
        others = {"biases": [] if biased is None else [biased.inputs[1]], **others}
        if biased is not None:
            last, is_relu = graph.through_relu(biased.outputs[0])
            attributes["relu"] = tf.compat.v1.AttrValue(b=is_relu)
    if last is op.outputs[0]:
        return
    numbers = {name: len(tensors) for name, tensors in others.items()}
    numbers |= {joined.first: part.first, joined.size: part.size}
    attributes |= {name: tf.compat.v1.AttrValue(i=number) for name, number in numbers.items()}
    inputs = [*op.inputs, *(tensor for tensors in others.values() for tensor in tensors)]
    graph.fuse([last], joined.op_type, op, inputs, **attributes)


def _after(
    graph: FusionGraph, op: tf.Operation, gradient: tf.Tensor
) -> tuple[tf.Tensor, list[tf.Tensor], list[tf.Tensor]]:
    """Returns what follows: the last tensor, what is added, what left the ReLU."""
    last, addends, masks = gradient, [], []
    addition = graph.sum_with_another(last, "AddN")
    # Of two products, the later one adds.
    if addition is not None and (
        addition[1].op.type != op.type or graph.is_before(addition[1], op.outputs)
    ):
        last, addends = addition[0], [addition[1]]
    relu = graph.only_reader(last, "ReluGrad")
    if relu is not None:
        last, masks = relu.outputs[0], [relu.inputs[1]]
    return last, addends, masks


def _parts(graph: FusionGraph, op: tf.Operation) -> Sequence[_Part]:
    """Returns the parts of a gradient if nothing else reads it, and they cost no more than it."""
    whole = op.outputs[0]
    if graph.is_output(whole) or not whole.shape.is_fully_defined() or not _is_one_group(op):
        return []
    uses = [use for use in graph.uses(whole) if graph.is_needed(use.op)]
    parts = [_part(use) for use in uses]
    known = [part for part in parts if part is not None]
    vectors = sum(_vectors(part.size) for part in known)
    fits = vectors <= _vectors(whole.shape.as_list()[-1])
    return known if len(known) == len(parts) and fits else []


def _is_one_group(op: tf.Operation) -> bool:
    """Returns whether each channel of the result is a product by the whole of the gradient."""
    return bool(op.type == "IpuMatMul" or op.inputs[1].shape[2] == op.outputs[0].shape[3])


def _part(use: TensorUse) -> _Part | None:
    """Returns the part that a use cuts out, None if it is not some of the last dimension."""
    if use.op.type != "Slice" or use.index != 0:
        return None
    whole, begin = use.op.inputs[:2]
    part = use.op.outputs[0]
    if not part.shape.is_fully_defined():
        return None
    # Lists of numbers: with `--tf1` the sizes of a shape are objects.
    sizes, of_whole = part.shape.as_list(), whole.shape.as_list()
    if sizes[:-1] != of_whole[:-1] or sizes == of_whole:
        return None
    first = tf.get_static_value(begin)
    if first is not None:
        return _Part(part, int(first[-1]), sizes[-1])
    if begin.op.type != "ConcatOffset":
        return None
    # As the parts are smaller than the whole in channels alone, these were concatenated.
    before = [tf.get_static_value(each) for each in begin.op.inputs[1 : 1 + begin.value_index]]
    known = [int(each[-1]) for each in before if each is not None]
    return _Part(part, sum(known), sizes[-1]) if len(known) == len(before) else None


def _vectors(channels: int) -> int:
    return -(-channels // _VECTOR)
