"""A cheap lower bound of the cost of plans: only plans that can be best need a price."""

from __future__ import annotations

from ipu_tf.machine.contractions import METHODS, pass_columns
from ipu_tf.machine.cost import Count, as_counts, ceil_div
from ipu_tf.machine.target import Target
from ipu_tf.planner.candidates import Candidates
from ipu_tf.planner.plan import largest_block, partial_dtype
from ipu_tf.planner.plan_blocks import block_work, streams_other_input
from ipu_tf.planner.plan_cost import turn_cycles
from ipu_tf.planner.shapes import DTYPE_BYTES, OpShape


def least_cycles(shape: OpShape, plans: Candidates, target: Target) -> Count:
    """Returns a lower bound of the cycles of plans.

    The bound counts the bytes that a tile receives at the highest rate, its multiply-accumulates
    at the peak of the method (with channels filled up if the method does so), and the
    transposition of operands.
    """
    shape = shape.undilated or shape
    block = largest_block(shape, plans.splits, plans.grain)
    operands = shape.operands(block)
    left = operands.left - ceil_div(operands.left, plans.tile_parts(shape.left_shared_by))
    right = operands.right - ceil_div(operands.right, plans.tile_parts(shape.right_shared_by))
    stream, resident = (right, left) if METHODS[plans.method].swapped else (left, right)
    element_bytes = DTYPE_BYTES[shape.dtype]
    exchange = stream * element_bytes // target.paired_exchange_bytes_per_cycle
    exchange = exchange + resident * element_bytes // target.exchange_bytes_per_cycle
    work = block_work(shape, plans, block)
    channels = work.in_channels * work.taps
    outputs = work.out_channels
    if METHODS[plans.method].padded:
        is_1x1 = METHODS[plans.method].expanded == "all"
        inner, taps = (channels, 1) if is_1x1 else (work.in_channels, work.taps)
        channels = ceil_div(inner, plans.grain) * plans.grain * taps
        columns = pass_columns(shape.dtype, plans.partials, target)
        outputs = ceil_div(outputs, columns) * columns
    macs = as_counts(work.groups * work.positions) * as_counts(channels * outputs)
    peak = METHODS[plans.method].peak_macs_per_cycle(shape.dtype, plans.partials, target)
    reducing = _reduction(shape, plans, operands.output, target)
    turn = turn_cycles(shape, plans.tiles) if streams_other_input(shape, plans.method) else 0
    step_cycles = as_counts(exchange + reducing) + as_counts(macs // peak)
    return turn + plans.steps * step_cycles


def least_cycles_by(method: str, shape: OpShape, partials: str, target: Target) -> int:
    """Returns a lower bound for all plans of a method: every tile multiplies at its peak."""
    shape = shape.undilated or shape
    work = shape.work(shape.extents, partials)
    macs = work.groups * work.positions * work.in_channels * work.taps * work.out_channels
    peak = METHODS[method].peak_macs_per_cycle(shape.dtype, partials, target)
    turn = turn_cycles(shape, target.tiles) if streams_other_input(shape, method) else 0
    return int(turn + macs // (peak * target.tiles))


def _reduction(shape: OpShape, plans: Candidates, outputs: Count, target: Target) -> Count:
    depth = plans.tile_parts(shape.reduction_splits)
    partial_bytes = DTYPE_BYTES[partial_dtype(shape.dtype, plans.partials)]
    receive_bytes = ceil_div(outputs, depth) * (depth - 1) * partial_bytes
    return receive_bytes // target.exchange_bytes_per_cycle
