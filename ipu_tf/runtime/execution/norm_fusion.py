"""Fuses the ops of batch normalization, forward and backward.

TensorFlow normalizes by a chain of element-wise ops and of sums over all dimensions but the last,
each of which reads the whole tensor. Fused, the moments are one op, another scales, shifts, adds
what a residual block adds and takes the ReLU, the two sums of the gradient are a third, and the
gradient of the input the last. The ops are known by their arithmetic, so those of other layers that
do the same are fused, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from ipu_tf.runtime.execution.fusion_graph import FusionGraph, TensorUse
from ipu_tf.runtime.execution.op_patterns import scalar_constant


def fuse_moments(graph: FusionGraph, op: tf.Operation) -> None:
    """Fuses the mean of each channel with its variance.

    Args:
        graph: The graph.
        op: An op of type SquaredDifference.
    """
    x, mean = op.inputs[0], _source(op.inputs[1])
    variance = graph.only_reader(op.outputs[0], "Mean")
    if variance is None or mean.op.type != "Mean":
        return
    same = mean.op.inputs[0] is x and _keeps_dims(mean.op) == _keeps_dims(variance)
    if not same or not _reduces_rows(mean.op) or not _reduces_rows(variance):
        return
    graph.fuse([mean, variance.outputs[0]], "IpuMoments", variance, [x], **_reduction(variance))


def fuse_scale_and_shift(graph: FusionGraph, op: tf.Operation) -> None:
    """Fuses `x * scale + shift` of each channel, and an addition and a ReLU or ReLU6 after it.

    Args:
        graph: The graph.
        op: An op of type AddV2.
    """
    for product, shift in (tuple(op.inputs), tuple(op.inputs)[::-1]):
        x_and_scale = _product_by_channels(product)
        if x_and_scale is None or not _is_vector_of(shift, product):
            continue
        if graph.only_use(product) is None:
            continue
        x, scale = x_and_scale
        sum_, op_type, tensors = op.outputs[0], "IpuScaleShift", [x]
        addition = graph.sum_with_another(sum_, "AddV2")
        if addition is not None:
            sum_, addend = addition
            op_type, tensors = "IpuScaleShiftAdd", [x, addend]
        readers = {name: graph.only_reader(sum_, name) for name in ("Relu", "Relu6")}
        last = next((reader.outputs[0] for reader in readers.values() if reader), sum_)
        activation = {
            name.lower(): tf.compat.v1.AttrValue(b=reader is not None)
            for name, reader in readers.items()
        }
        graph.fuse([last], op_type, op, [*tensors, scale, shift], **activation)
        return


def fuse_sums(graph: FusionGraph, op: tf.Operation) -> None:
    """Fuses the sum of each channel's gradients with that of their products with `x`.

    Args:
        graph: The graph.
        op: An op of type Sum.
    """
    product = op.inputs[0].op
    if product.type != "Mul" or graph.only_use(op.inputs[0]) is None or not _reduces_rows(op):
        return
    if any(factor.shape != op.inputs[0].shape for factor in product.inputs):
        return
    for x, dy in (tuple(product.inputs), tuple(product.inputs)[::-1]):
        sums = (use.op for use in graph.uses(dy) if _is_sum_like(use, op))
        other = next((sum_ for sum_ in sums if not graph.is_replaced(sum_.outputs[0])), None)
        if other is not None:
            graph.fuse(
                [other.outputs[0], op.outputs[0]], "IpuColumnDots", op, [x, dy], **_reduction(op)
            )
            return


def fuse_gradient(graph: FusionGraph, op: tf.Operation) -> None:
    """Fuses the gradient of what was normalized: by its values, their mean and their variance.

    Args:
        graph: The graph.
        op: An op of type AddN.
    """
    terms = list(op.inputs)
    if len(terms) != 3 or any(graph.only_use(term) is None for term in terms):
        return
    of_values = next(filter(None, map(_product_by_channels, terms)), None)
    of_variance = next(filter(None, map(_variance_term, terms)), None)
    of_mean = next((v for t in terms if (v := _spread_vector(t)) is not None), None)
    if of_values is None or of_variance is None or of_mean is None:
        return
    dy, scale = of_values
    x = of_variance.x
    if x.shape != dy.shape:
        return
    graph.fuse(
        [op.outputs[0]],
        "IpuNormGradient",
        op,
        [x, dy, scale, of_variance.mean, of_variance.gradient, of_mean],
        rows=tf.compat.v1.AttrValue(i=_rows(x)),
    )


class _VarianceTerm(NamedTuple):
    """The parts of `2 * gradient / rows * (x - mean)`."""

    x: tf.Tensor
    mean: tf.Tensor
    gradient: tf.Tensor


def _variance_term(term: tf.Tensor) -> _VarianceTerm | None:
    """Returns the parts of the gradient by a variance, None for other tensors."""
    if term.op.type != "Mul":
        return None
    for double, distance in (tuple(term.op.inputs), tuple(term.op.inputs)[::-1]):
        if distance.op.type != "Sub" or double.op.type != "Mul":
            continue
        x, mean = distance.op.inputs
        for two, spread in (tuple(double.op.inputs), tuple(double.op.inputs)[::-1]):
            gradient = _spread_vector(spread)
            if gradient is not None and scalar_constant(two) == 2 and _is_vector_of(mean, x):
                return _VarianceTerm(x, mean, gradient)
    return None


def _spread_vector(tensor: tf.Tensor) -> tf.Tensor | None:
    """Returns what a gradient of a mean of rows gives to each row, before the division."""
    if tensor.op.type != "RealDiv" or tensor.dtype != tf.float32:
        return None
    tile, rows = tensor.op.inputs
    if tile.op.type not in {"Tile", "BroadcastTo"} or scalar_constant(rows) != _rows(tensor):
        return None
    vector = tile.op.inputs[0]
    return vector if _is_vector_of(vector, tensor) else None


def _product_by_channels(product: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor] | None:
    """Returns the factors of a float32 product of rows and one value a channel, None for others."""
    if product.op.type != "Mul" or product.dtype != tf.float32:
        return None
    for x, scale in (tuple(product.op.inputs), tuple(product.op.inputs)[::-1]):
        if x.shape == product.shape and _is_vector_of(scale, x):
            return x, scale
    return None


def _is_vector_of(vector: tf.Tensor, x: tf.Tensor) -> bool:
    """Returns whether a tensor holds one value for each channel of `x`, which has rows of them."""
    if not vector.shape.is_fully_defined() or _rows(x) < 2:
        return False
    ones = (1,) * (vector.shape.rank - 1)
    return vector.shape == (*ones, x.shape[-1]) and 1 <= vector.shape.rank <= x.shape.rank


def _rows(x: tf.Tensor) -> int:
    """Returns the number of rows of a tensor of at least two dimensions, 0 if it is unknown."""
    if not x.shape.is_fully_defined() or x.shape.rank < 2 or not x.shape.num_elements():
        return 0
    return int(np.prod(x.shape[:-1].as_list()))


def _reduces_rows(op: tf.Operation) -> bool:
    """Returns whether an op reduces all dimensions of a float32 tensor but the last."""
    x, axes = op.inputs[0], tf.get_static_value(op.inputs[1])
    if axes is None or x.dtype != tf.float32 or _rows(x) < 2:
        return False
    rank = x.shape.rank
    return sorted(axis % rank for axis in np.reshape(axes, -1).tolist()) == list(range(rank - 1))


def _is_sum_like(use: TensorUse, op: tf.Operation) -> bool:
    """Returns whether a use is by a sum over the same dimensions as that of `op`."""
    is_sum = use.op.type == "Sum" and use.index == 0 and use.op is not op
    return is_sum and _reduces_rows(use.op) and _keeps_dims(use.op) == _keeps_dims(op)


def _keeps_dims(op: tf.Operation) -> bool:
    return bool(op.get_attr("keep_dims"))


def _reduction(op: tf.Operation) -> dict[str, tf.compat.v1.AttrValue]:
    """Returns the attributes of a joined op that has the results of `op`."""
    return {
        "rank": tf.compat.v1.AttrValue(i=op.inputs[0].shape.rank),
        "keep_dims": tf.compat.v1.AttrValue(b=_keeps_dims(op)),
    }


def _source(tensor: tf.Tensor) -> tf.Tensor:
    """Returns what a StopGradient hands on."""
    return tensor.op.inputs[0] if tensor.op.type == "StopGradient" else tensor
