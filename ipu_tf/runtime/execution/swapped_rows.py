"""Replaces transposes of the first two dimensions, as between samples and steps.

Their rows stay as they are, so they are copied one by one; TensorFlow's transpose of such a tensor
takes several times as long.
"""

from __future__ import annotations

import tensorflow as tf

from ipu_tf.runtime.execution.fusion_graph import FusionGraph, attributes_of
from ipu_tf.runtime.execution.product_fusion import permutation

_MANY_ELEMENTS = 1 << 16
_LONG_ROW = 16
"""Elements of a row, from which on the copy of a row pays: a line of the cache."""


def replace_transposes(graph: FusionGraph) -> None:
    """Replaces all such transposes that no joined op has taken in."""
    for op in graph.left("Transpose"):
        if _swaps_long_rows(op):
            graph.fuse(
                op.outputs,
                "IpuSwapRows",
                op,
                op.inputs[:1],
                rank=tf.compat.v1.AttrValue(i=op.inputs[0].shape.rank),
                T=attributes_of(op)["T"],
            )


def _swaps_long_rows(op: tf.Operation) -> bool:
    x, order = op.inputs[0], permutation(op.outputs[0])
    if x.dtype != tf.float32 or order is None or not x.shape.is_fully_defined():
        return False
    swaps = len(order) > 2 and list(order) == [1, 0, *range(2, len(order))]
    elements = x.shape.num_elements()
    return swaps and elements >= _MANY_ELEMENTS and x.shape[2:].num_elements() >= _LONG_ROW
