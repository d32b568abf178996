"""Replaces sums over the first dimensions, as gradients of broadcast biases are.

TensorFlow's reduction reads such a tensor several times slower than memory allows. The joined op
adds up blocks of rows side by side, as the gradient of a bias of vectors does.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ipu_tf.runtime.execution.fusion_graph import FusionGraph, attributes_of

_MANY_ELEMENTS = 1 << 16
# Blocks of 64 Ki elements have rows enough that their sums are few.
_MANY_COLUMNS = 1 << 14


def replace_column_sums(graph: FusionGraph) -> None:
    """Replaces all sums over the first dimensions that no other joined op has taken in."""
    for op in graph.left("Sum"):
        axes = _summed_axes(op)
        if axes and _is_faster(op):
            graph.fuse(
                op.outputs,
                "IpuColumnSums",
                op,
                op.inputs[:1],
                axes=tf.compat.v1.AttrValue(i=axes),
                **{name: attributes_of(op)[name] for name in ("keep_dims", "T")},
            )


def _summed_axes(op: tf.Operation) -> int:
    """Returns how many first dimensions a sum is over, 0 if it is over others, too."""
    x, axes = op.inputs[0], tf.get_static_value(op.inputs[1])
    if axes is None or not x.shape.is_fully_defined():
        return 0
    rank = x.shape.rank
    numbers = sorted(axis % rank for axis in np.reshape(axes, -1).tolist())
    return len(numbers) if numbers == list(range(len(numbers))) and len(numbers) < rank else 0


def _is_faster(op: tf.Operation) -> bool:
    x, columns = op.inputs[0], op.outputs[0].shape.num_elements()
    many = x.shape.num_elements() >= _MANY_ELEMENTS
    return x.dtype == tf.float32 and many and 1 < columns <= _MANY_COLUMNS
