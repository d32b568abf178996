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

_MASK = ("Reshape", ("GreaterEqual", "segment_ids", 0.0))
_ROWS = ("GatherV2", "params", "indices", 0.0)
_MASKED_ROWS = ("SelectV2", ("LogicalAnd", "mask", "ones"), _ROWS, "zeros")


def fuse_sum(graph: FusionGraph, op: tf.Operation) -> None:
    """Fuses a sum over segments.

    Args:
        graph: The graph.
        op: An op of type UnsortedSegmentSum.
    """
    data, ids, count = op.inputs
    if not _are_rows(data) or not _are_numbers(ids) or count.dtype != tf.int32:
        return
    row_operands = _row_operands(graph, data)
    if row_operands is None:
        graph.fuse(op.outputs, "IpuSegmentSum", op, op.inputs)
    else:
        graph.fuse(op.outputs, "IpuGatherSegmentSum", op, [*row_operands, ids, count])


def fuse_rows(graph: FusionGraph, op: tf.Operation) -> bool:
    """Fuses the gradient of a sum over segments; returns whether it is one.

    Args:
        graph: The graph.
        op: An op of type SelectV2.
    """
    bindings = find(op.outputs[0], _MASKED_ROWS, {})
    bindings = None if bindings is None else find(bindings["mask"], _MASK, bindings)
    if bindings is None or not _are_rows(bindings["params"]):
        return False
    ids, indices, mask = (bindings[name] for name in ("segment_ids", "indices", "mask"))
    if not is_filled(bindings["ones"], 1) or not is_filled(bindings["zeros"], 0):
        return False
    fits = ids.shape == indices.shape and mask.shape == (*ids.shape, 1)
    if not fits or not _are_numbers(ids) or not _are_numbers(indices):
        return False
    graph.fuse([op.outputs[0]], "IpuGatherRows", op, [bindings["params"], indices, ids])
    return True


def _row_operands(graph: FusionGraph, rows: tf.Tensor) -> tuple[tf.Tensor, ...] | None:
    """Returns rows, which of them are picked, and the ids of which negative ones pick none.

    None if the rows are not picked from others, or if something else reads them.
    """
    while rows.op.type == "Reshape" and rows.op.inputs[0].shape == rows.shape:
        if graph.only_use(rows) is None:
            return None
        rows = rows.op.inputs[0]
    op = rows.op
    if graph.only_use(rows) is None:
        return None
    if op.type == "IpuGatherRows":
        return tuple(op.inputs)
    bindings = find(rows, _ROWS, {})
    if (
        bindings is None
        or not _are_rows(bindings["params"])
        or not _are_numbers(bindings["indices"])
    ):
        return None
    return bindings["params"], bindings["indices"], bindings["indices"]


def _are_rows(tensor: tf.Tensor) -> bool:
    shape = tensor.shape
    is_matrix = tensor.dtype == tf.float32 and shape.rank == 2 and shape.is_fully_defined()
    return bool(is_matrix and shape[1] >= _FEWEST_COLUMNS)


def _are_numbers(tensor: tf.Tensor) -> bool:
    return bool(tensor.dtype == tf.int32 and tensor.shape.rank == 1)
