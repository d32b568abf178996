"""Fuses products with the transposes of their operands and of their results.

An attention moves its heads before the tokens for each product and back after it; a layer that
shares the matrix of an embedding transposes it, and its gradient. Fused, the product reads and
writes its matrices where they lie. Its sums are the same chains, so its numbers are the same bits.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
import tensorflow as tf

from ipu_tf.runtime.execution.fusion_graph import FusionGraph, attributes_of

_TRANSPOSED = MappingProxyType(
    {"IpuBatchMatMul": ("adj_x", "adj_y"), "IpuMatMul": ("transpose_a", "transpose_b")}
)
"""The attributes of products that say which operands are transposed."""
_ATTRIBUTES = ("T", "plan", "method", "serial", "partials", "rounding", "nanoo", "stream")


def fuse_transposes(graph: FusionGraph, op: tf.Operation) -> bool:
    """Fuses a product with the transposes around it; returns whether there is one.

    Args:
        graph: The graph.
        op: An op of type IpuBatchMatMul or IpuMatMul.
    """
    # Random bits are drawn in the order of the elements.
    if op.get_attr("rounding") == b"stochastic" or not _has_equal_batches(op):
        return False
    batch = string.ascii_lowercase[: op.outputs[0].shape.rank - 2]
    turns_left, turns_right = _TRANSPOSED[op.type]
    left = "KM" if op.get_attr(turns_left) else "MK"
    right = "NK" if op.get_attr(turns_right) else "KN"
    x, x_labels = _before_transpose(graph, op.inputs[0], batch + left)
    y, y_labels = _before_transpose(graph, op.inputs[1], batch + right)
    last, labels = _after_transpose(graph, op.outputs[0], batch + "MN")
    if x is op.inputs[0] and y is op.inputs[1] and last is op.outputs[0]:
        return False
    attributes = attributes_of(op)
    equation = f"{x_labels},{y_labels}->{labels}".encode()
    graph.fuse(
        [last],
        "IpuTransposedMatMul",
        op,
        [x, y],
        **{name: attributes[name] for name in _ATTRIBUTES},
        equation=tf.compat.v1.AttrValue(s=equation),
        N=tf.compat.v1.AttrValue(i=2),
    )
    return True


def _has_equal_batches(op: tf.Operation) -> bool:
    """Returns whether the shapes are known, and no factor is used for several products."""
    x, y = (tensor.shape for tensor in op.inputs)
    is_static = x.is_fully_defined() and y.is_fully_defined()
    return bool(is_static and x.rank == y.rank and x[:-2] == y[:-2])


def _before_transpose(graph: FusionGraph, tensor: tf.Tensor, labels: str) -> tuple[tf.Tensor, str]:
    """Returns what a transpose was made of and its labels if the product can read that."""
    order = permutation(tensor)
    other_types = (use.op.type for use in graph.uses(tensor) if use.op.type not in _TRANSPOSED)
    if order is None or graph.is_output(tensor) or next(other_types, None) is not None:
        return tensor, labels
    source = "".join(labels[order.index(axis)] for axis in range(len(order)))
    # The elements of a row or of a column adjoin: other matrices would be copied.
    return (tensor.op.inputs[0], source) if source[-1] in "MNK" else (tensor, labels)


def _after_transpose(graph: FusionGraph, tensor: tf.Tensor, labels: str) -> tuple[tf.Tensor, str]:
    """Returns the transpose that alone reads a product and its labels, or the product's own."""
    use = graph.only_use(tensor)
    if use is None or use.index != 0:
        return tensor, labels
    last = use.op.outputs[0] if use.op.outputs else tensor
    order = permutation(last)
    if order is None or labels[order[-1]] not in "MN":
        return tensor, labels
    return last, "".join(labels[axis] for axis in order)


def permutation(tensor: tf.Tensor) -> Sequence[int] | None:
    """Returns the order of dimensions if a tensor is a transpose by a known one, else None."""
    if tensor.op.type != "Transpose":
        return None
    order = tensor.op.inputs[1]
    is_inverse = order.op.type == "InvertPermutation"
    value = tf.get_static_value(order.op.inputs[0] if is_inverse else order)
    if value is None:
        return None
    axes = np.argsort(value) if is_inverse else np.asarray(value) % len(value)
    return [int(axis) for axis in axes]
