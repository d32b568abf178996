"""Fuses the ops of dropout: random numbers, their comparison, the product and the selection.

TensorFlow's dropout is a chain of element-wise ops over tensors of the size of its input. Fused,
it takes two passes: one draws the mask, the other scales the kept elements and is also the
gradient. The same seed gives the same numbers, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import tensorflow as tf

from ipu_tf.runtime.execution import softmax_fusion
from ipu_tf.runtime.execution.fusion_graph import FusionGraph, attributes_of
from ipu_tf.runtime.execution.op_patterns import scalar_constant

_PHILOX = (tf.random.Algorithm.PHILOX.value, tf.random.Algorithm.AUTO_SELECT.value)
"""Algorithms whose numbers are Philox's on a CPU."""
_TYPES = (tf.float32, tf.float16)


def fuse_mask(graph: FusionGraph, op: tf.Operation) -> None:
    """Fuses the comparison of uniform random numbers with the op that draws them.

    Args:
        graph: The graph.
        op: An op of type GreaterEqual.
    """
    numbers, rate = op.inputs[0], _constant(op.inputs[1])
    if rate is None or op.inputs[1].shape.rank != 0 or not 0 <= rate <= 1:
        return
    source = _uniform(graph, numbers)
    if source is None:
        return
    op_type, inputs, seeds = _generator(source)
    graph.fuse(
        [op.outputs[0]],
        op_type,
        op,
        inputs,
        dtype=tf.compat.v1.AttrValue(type=numbers.dtype.as_datatype_enum),
        rate=tf.compat.v1.AttrValue(f=rate),
        shape=tf.compat.v1.AttrValue(shape=numbers.shape.as_proto()),
        **seeds,
    )


def fuse_product_then_selection(graph: FusionGraph, op: tf.Operation) -> None:
    """Fuses `where(mask, x * scale, 0)`, the dropout itself.

    Args:
        graph: The graph.
        op: An op of type SelectV2.
    """
    product = op.inputs[1].op
    if product.type == "Mul" and _keeps_or_zero(op):
        _fuse_scale(graph, op, mask=op.inputs[0], factors=product.inputs)


def fuse_selection_then_product(graph: FusionGraph, op: tf.Operation) -> None:
    """Fuses `where(mask, x, 0) * scale`, the gradient of dropout.

    Args:
        graph: The graph.
        op: An op of type Mul.
    """
    for value, scale in (op.inputs, op.inputs[::-1]):
        selection = value.op
        if selection.type == "SelectV2" and _keeps_or_zero(selection):
            factors = (selection.inputs[1], scale)
            _fuse_scale(graph, op, mask=selection.inputs[0], factors=factors)
            return


def _fuse_scale(
    graph: FusionGraph, op: tf.Operation, *, mask: tf.Tensor, factors: tuple[tf.Tensor, ...]
) -> None:
    for value, scale in (factors, factors[::-1]):
        factor = _constant(scale) if scale.shape.rank == 0 else None
        # Such a factor times zero is zero, so the order of the two does not matter.
        if factor is None or not 0 < factor < math.inf or value.shape != mask.shape:
            continue
        if softmax_fusion.fuse_dropout(graph, op, value, mask, scale):
            return
        graph.fuse([op.outputs[0]], "IpuMaskedScale", op, [value, mask, scale])
        return


def _keeps_or_zero(selection: tf.Operation) -> bool:
    """Returns whether a selection chooses between zero and values of the mask's shape."""
    mask, values, other = selection.inputs
    return (
        values.dtype in _TYPES
        and mask.shape.is_fully_defined()
        and mask.shape == values.shape == selection.outputs[0].shape
        and _constant(other) == 0
    )


def _generator(
    source: tf.Operation,
) -> tuple[str, Sequence[tf.Tensor], dict[str, tf.compat.v1.AttrValue]]:
    """Returns the op that draws a mask as `source` draws numbers: its type, inputs and seeds."""
    if source.type == "RandomUniform":
        attributes = attributes_of(source)
        return "IpuStatefulDropoutMask", [], {key: attributes[key] for key in ("seed", "seed2")}
    return "IpuDropoutMask", source.inputs[1:3], {}


def _uniform(graph: FusionGraph, numbers: tf.Tensor) -> tf.Operation | None:
    """Returns the op of random numbers that are uniform in [0, 1) and read only here."""
    steps = ("AddV2", 0.0), ("Mul", 1.0)
    for op_type, neutral in steps:
        if graph.only_use(numbers) is None:
            return None
        if numbers.op.type == op_type:
            if _constant(numbers.op.inputs[1]) != neutral:
                return None
            numbers = numbers.op.inputs[0]
    source = numbers.op
    if graph.only_use(numbers) is None or not _is_philox(source):
        return None
    is_static = numbers.shape.is_fully_defined() and numbers.dtype in _TYPES
    return source if is_static else None


def _is_philox(source: tf.Operation) -> bool:
    """Returns whether an op draws uniform numbers by Philox's algorithm."""
    if source.type != "StatelessRandomUniformV2":
        return source.type == "RandomUniform"
    algorithm = tf.get_static_value(source.inputs[3])
    return algorithm is not None and int(algorithm) in _PHILOX


def _constant(tensor: tf.Tensor) -> float | None:
    """Returns the value of a constant scalar or of the difference of two, None for others."""
    op = tensor.op
    if op.type == "Sub":
        left, right = (_constant(operand) for operand in op.inputs)
        return None if left is None or right is None else left - right
    return scalar_constant(tensor)
