"""Fuses sums over segments of rows, and the rows that their gradient picks.

TensorFlow adds up rows one by one with a call for each, and its gradient makes a mask as large as
the rows. Fused, both are one pass over the rows; sums are in the same order.
"""

from __future__ import annotations

import tensorflow as tf

from ipu_tf.runtime.execution.fusion_graph import FusionGraph
from ipu_tf.runtime.execution.op_patterns import find

_FEWEST_COLUMNS = 8
"""Rows of fewer columns are left to TensorFlow."""

_KEPT = ("Reshape", ("GreaterEqual", "segment_ids", 0.0))
_ROWS = ("GatherV2", "params", "indices", 0.0)
_PICKED = ("SelectV2", ("LogicalAnd", "kept", "ones"), _ROWS, "zeros")


def fuse_sum(joined: FusionGraph, op: tf.Operation) -> None:
    """Fuses a sum over segments.

    Args:
        joined: The graph.
        op: An op of type UnsortedSegmentSum.
    """
    data, ids, count = op.inputs
    if _are_rows(data) and _are_numbers(ids) and count.dtype == tf.int32:
        fused = joined.create("IpuSegmentSum", op, op.inputs)
        joined.replace(op.outputs[0], fused.outputs[0])


def fuse_rows(joined: FusionGraph, op: tf.Operation) -> bool:
    """Fuses the gradient of a sum over segments; returns whether it is one.

    Args:
        joined: The graph.
        op: An op of type SelectV2.
    """
    found = find(op.outputs[0], _PICKED, {})
    found = None if found is None else find(found["kept"], _KEPT, found)
    if found is None or not _are_rows(found["params"]):
        return False
    ids, indices, reshaped = (found[name] for name in ("segment_ids", "indices", "kept"))
    if not _is_filled(found["ones"], 1) or not _is_filled(found["zeros"], 0):
        return False
    fits = ids.shape == indices.shape and reshaped.shape == (*ids.shape, 1)
    if not fits or not _are_numbers(ids) or not _are_numbers(indices):
        return False
    fused = joined.create("IpuGatherRows", op, [found["params"], indices, ids])
    joined.replace(op.outputs[0], fused.outputs[0])
    return True


def _are_rows(tensor: tf.Tensor) -> bool:
    shape = tensor.shape
    known = tensor.dtype == tf.float32 and shape.rank == 2 and shape.is_fully_defined()
    return bool(known and shape[1] >= _FEWEST_COLUMNS)


def _are_numbers(tensor: tf.Tensor) -> bool:
    return bool(tensor.dtype == tf.int32 and tensor.shape.rank == 1)


def _is_filled(tensor: tf.Tensor, value: int) -> bool:
    """Returns whether all elements of a tensor are a value, 0 or 1."""
    op = tensor.op
    if op.type == "Fill":
        return bool(tf.get_static_value(op.inputs[1]) == value)
    if op.type == "Const":
        return bool((tf.get_static_value(tensor) == value).all())
    return bool(op.type == ("OnesLike" if value else "ZerosLike"))
