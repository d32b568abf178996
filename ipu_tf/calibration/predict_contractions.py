"""Predicts matmuls and convolutions from their plans, and single AMP vertices."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import count, takewhile

from ipu_tf.calibration.outcome import CannotPredict, PredictionOutcome
from ipu_tf.calibration.params import input_dtype, partials_dtype, says, whole
from ipu_tf.calibration.records import MeasuredPoint
from ipu_tf.machine.contractions.amp import amp_1x1_cycles
from ipu_tf.machine.contractions.work import ContractionWork
from ipu_tf.machine.dtypes import INPUT_BYTES
from ipu_tf.machine.target import Target
from ipu_tf.planner.plan import Plan, PlanDoesNotFit
from ipu_tf.planner.plan_memory import plan_memory
from ipu_tf.planner.plan_steps import plan_supersteps
from ipu_tf.planner.planner import plan_op
from ipu_tf.planner.releases import CURRENT, FIRST
from ipu_tf.planner.shapes import ConvShape, MatMulShape, OpShape

_SQUARE_STEP = 128
"""The search tries square matmuls in steps of this many rows. Published sizes (CIT 5.1) are
multiples of it."""

_ALONE = dataclasses.replace(CURRENT, arrivals=False)
"""For products that are measured alone, with operands where plans want them."""


def amp_vertex(record: MeasuredPoint, target: Target) -> PredictionOutcome:
    """Predicts one AMP vertex on every tile: no exchange, no sync."""
    rows = whole(record, "rows_per_tile", "rows", "m")
    in_channels = whole(record, "in_chans", "k", default=16)
    out_channels = whole(record, "out_chans", "n", default=16)
    tiles = whole(record, "tiles", default=target.tiles)
    work = ContractionWork(
        positions=rows,
        row_positions=rows,
        in_channels=in_channels,
        out_channels=out_channels,
        dtype=input_dtype(record),
        partials=partials_dtype(record),
    )
    cycles = int(amp_1x1_cycles(work, target))
    return PredictionOutcome(
        seconds=target.seconds(cycles), flops=2 * rows * in_channels * out_channels * tiles
    )


def dense_matmul(record: MeasuredPoint, target: Target) -> PredictionOutcome:
    """Predicts a planned matmul, in the cycles that the record counts."""
    shape = MatMulShape(
        batch=whole(record, "batch", default=1),
        m=whole(record, "m"),
        k=whole(record, "k"),
        n=whole(record, "n"),
        dtype=input_dtype(record),
    )
    plan = _plan(shape, target, partials_dtype(record))
    steps = plan_supersteps(shape, plan, target)
    cycles = sum(step.compute_cycles for step in steps)
    if not says(record, "compute sets only", "compute only"):
        cycles += sum(step.exchange_cycles for step in steps)
        if not says(record, "no sync"):
            cycles += sum(step.sync_cycles for step in steps)
    flops = 2 * shape.batch * shape.m * shape.k * shape.n
    return PredictionOutcome(seconds=target.seconds(cycles), flops=flops)


def conv_forward(record: MeasuredPoint, target: Target) -> PredictionOutcome:
    """Predicts a planned convolution.

    Images are padded so that an output covers the image ("same"), and the operations counted are
    those of that output, padding included: the records state neither.
    """
    image = whole(record, "input", "input_size", "image")
    kernel = whole(record, "filter", "filter_size", "kernel")
    stride = whole(record, "stride", default=1)
    groups = whole(record, "groups", default=1)
    out = -(-image // stride)
    padding_rows = max((out - 1) * stride + kernel - image, 0)
    before, after = padding_rows // 2, padding_rows - padding_rows // 2
    shape = ConvShape(
        batch=whole(record, "batch", default=1),
        in_rows=image,
        in_columns=image,
        in_channels=whole(record, "in_chans") // groups,
        out_channels=whole(record, "out_chans") // groups,
        groups=groups,
        kernel_rows=kernel,
        kernel_columns=kernel,
        out_rows=out,
        out_columns=out,
        strides=(stride, stride),
        padding=(before, after, before, after),
        dtype=input_dtype(record),
    )
    plan = _plan(shape, target, partials_dtype(record))
    macs = shape.batch * out * out * kernel * kernel * groups
    macs *= shape.in_channels * shape.out_channels
    return PredictionOutcome(seconds=target.seconds(_cycles(shape, plan, target)), flops=2 * macs)


def gemm_peak(record: MeasuredPoint, target: Target) -> PredictionOutcome:
    """Predicts the fastest of all square matmuls that fit.

    Raises:
        CannotPredict: Not even the smallest that is tried fits.
    """
    dtype, partials = input_dtype(record), partials_dtype(record)
    largest = whole(
        record, "largest_n_that_fits", "largest_n", default=_largest_square(dtype, partials, target)
    )
    rates = [*_square_rates(largest, dtype, partials, target)]
    if not rates:
        raise CannotPredict(f"no square matmul from {_SQUARE_STEP} to {largest} fits")
    return PredictionOutcome(flops_per_second=max(rates))


def gemm_largest_square(record: MeasuredPoint, target: Target) -> PredictionOutcome:
    """Predicts the largest square matmul whose matrices and plan fit the tiles.

    Raises:
        CannotPredict: Not even the smallest that is tried fits.
    """
    size = _largest_square(input_dtype(record), partials_dtype(record), target)
    if size == 0:
        raise CannotPredict(f"no square matmul of {_SQUARE_STEP} rows fits")
    return PredictionOutcome(count=size)


def _square_rates(largest: int, dtype: str, partials: str, target: Target) -> Iterator[float]:
    for size in range(_SQUARE_STEP, largest + 1, _SQUARE_STEP):
        shape = MatMulShape(m=size, k=size, n=size, dtype=dtype)
        try:
            plan = _plan(shape, target, partials)
        except CannotPredict:  # nor do larger ones
            return
        yield 2 * size**3 / target.seconds(_cycles(shape, plan, target))


def _largest_square(dtype: str, partials: str, target: Target) -> int:
    """Returns the last size that fits before one does not, 0 if the first does not.

    The benchmark raises the size in the same way until compilation fails: whether a plan fits
    depends not only on the size, but also on how it divides.
    """
    sizes = takewhile(
        lambda size: _square_fits(size, dtype, partials, target), count(_SQUARE_STEP, _SQUARE_STEP)
    )
    return max(sizes, default=0)


def _square_fits(size: int, dtype: str, partials: str, target: Target) -> bool:
    """Returns whether the benchmark's matrices fit on the tiles beside the memory of the plan.

    It multiplies two and adds the product to a third (CIT 5.1). It lays out operands in two
    ways, of which the more demanding one counts: evenly, in order, so that both operands are
    copied into the layout of the plan. Product and sum have the partials' type, as in mixed
    precision.
    """
    shape = MatMulShape(m=size, k=size, n=size, dtype=dtype)
    try:
        plan = _plan(shape, target, partials)
    except CannotPredict:
        return False
    memory = plan_memory(shape, plan, target)
    on_tile = -(-size * size // target.tiles)
    resident = on_tile * (4 * INPUT_BYTES[dtype] + 2 * INPUT_BYTES[partials])
    always_bytes = memory.vertex_state_bytes + sum(memory.code.values())
    return memory.scratch_bytes + resident + always_bytes <= target.tile_bytes - target.system_bytes


def _plan(shape: MatMulShape | ConvShape, target: Target, partials: str) -> Plan:
    """Returns the plan that the planner finds with its default share of memory.

    Published figures of first-generation chips were measured with the first releases of poplibs.

    Raises:
        CannotPredict: No plan fits.
    """
    release = FIRST if target.chip == "gc2" else _ALONE
    try:
        return plan_op(shape, target, partials=partials, release=release)
    except PlanDoesNotFit as error:
        raise CannotPredict(str(error)) from error


def _cycles(shape: OpShape, plan: Plan, target: Target) -> int:
    return sum(step.total_cycles for step in plan_supersteps(shape, plan, target))
