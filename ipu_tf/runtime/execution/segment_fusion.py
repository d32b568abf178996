"""Fuses sums over segments of rows, and the rows that their gradient picks.

TensorFlow adds up rows one by one with a call for each, and its gradient makes a mask as large as
the rows. Fused, both are one pass over the rows; sums are in the same order. Rows that are picked
to be added up, as messages of a graph network are, are added where they lie.
"""

from __future__ import annotations

import tensorflow as tf

from ipu_tf.runtime.execution.fusion_graph import FusionGraph
from ipu_tf.runtime.execution.op_patterns import find, is_filled

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
    if not _are_rows(data) or not _are_numbers(ids) or count.dtype != tf.int32:
        return
    picked = _picked_rows(joined, data)
    if picked is None:
        fused = joined.create("IpuSegmentSum", op, op.inputs)
    else:
        fused = joined.create("IpuGatherSegmentSum", op, [*picked, ids, count])
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
    if not is_filled(found["ones"], 1) or not is_filled(found["zeros"], 0):
        return False
    fits = ids.shape == indices.shape and reshaped.shape == (*ids.shape, 1)
    if not fits or not _are_numbers(ids) or not _are_numbers(indices):
        return False
    fused = joined.create("IpuGatherRows", op, [found["params"], indices, ids])
    joined.replace(op.outputs[0], fused.outputs[0])
    return True


def _picked_rows(joined: FusionGraph, rows: tf.Tensor) -> tuple[tf.Tensor, ...] | None:
    """Returns rows, which of them are picked, and the ids of which negative ones pick none.

    None if the rows are not picked from others, or if something else reads them.
    """
    while rows.op.type == "Reshape" and rows.op.inputs[0].shape == rows.shape:
        if joined.only_use(rows) is None:
            return None
        rows = rows.op.inputs[0]
    op = rows.op
    if joined.only_use(rows) is None:
        return None
    if op.type == "IpuGatherRows":
        return tuple(op.inputs)
    found = find(rows, _ROWS, {})
    if found is None or not _are_rows(found["params"]) or not _are_numbers(found["indices"]):
        return None
    return found["params"], found["indices"], found["indices"]


def _are_rows(tensor: tf.Tensor) -> bool:
    shape = tensor.shape
    known = tensor.dtype == tf.float32 and shape.rank == 2 and shape.is_fully_defined()
    return bool(known and shape[1] >= _FEWEST_COLUMNS)


def _are_numbers(tensor: tf.Tensor) -> bool:
    return bool(tensor.dtype == tf.int32 and tensor.shape.rank == 1)
