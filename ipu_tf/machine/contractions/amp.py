"""AMP vertices: weights stay in the units, positions stream past them.

Cycles after poplibs' estimators (lib/poplin/PerformanceEstimation.hpp, release 3.4). A pass holds
`AMP_GRAINS` input channels x `pass_columns` output channels of weights. Models weights that load 64
bits at a time, poplibs' default (option `use128BitConvUnitLoad`), and one pass for each group of
output channels. Where input channels are few, a pass holds those of two or four filter rows.
"""

from __future__ import annotations

import numpy as np

from ipu_tf.machine.contractions.work import ContractionWork
from ipu_tf.machine.cost import Count, ceil_div
from ipu_tf.machine.dtypes import INPUT_BYTES
from ipu_tf.machine.target import AMP_GRAINS, Target
from ipu_tf.machine.workers import barrel_cycles

CALL_1X1_CYCLES = 5
"""Entry and exit of a 1x1 vertex that poplibs' estimate leaves out: the constant by which it was
low on a Bow (tessellate-ipu, notebook "IPU Peak Flops": N x 16 x 16, float16, 64-bit loads)."""

_VERTEX_1X1_CYCLES = 50
_VERTEX_NX1_CYCLES = 109
_F8_VERTEX_CYCLES = 46
_RETENTION_1X1_SLOTS = 7
_RETENTION_NX1_SLOTS = 9
"""Slots that a worker saves because the units keep their state between vertices."""

_SLOTS = {"float32": 8, "float16": 4, "float8": 4}
"""Slots of a position on the chips of the estimates."""

_ROW_LOAD_CYCLES = {1: 15, 2: 46, 4: 60}
"""Cycles in which a supervisor loads the weights of so many filter rows, beside their bytes."""

_FASTEST_WORKER_CYCLES = 14
"""The supervisor's own cycles if the slowest worker does not hide them."""


def amp_1x1_cycles(work: ContractionWork, target: Target) -> Count:
    """Returns the cycles of a tile for a filter of one position.

    Treats `work.taps` as further input channels: the image has been expanded.
    """
    channels = work.in_channels * work.taps
    in_groups = ceil_div(channels, AMP_GRAINS[work.dtype])
    columns = pass_columns(work.dtype, work.partials, target)
    out_groups = ceil_div(work.out_channels, columns)
    load = weight_load_cycles(work.dtype, columns, target)
    zeroing = out_groups * (18 + 7 + load + _inner_1x1(work, target, zeroing=True))
    later_cycles = out_groups * (19 + 6 + load + _inner_1x1(work, target, zeroing=False))
    groups = work.groups * (13 + (in_groups - 1) * (15 + later_cycles) + 11 + zeroing)
    zero_list = barrel_cycles(7 + 3 * (in_groups * work.groups - 1), target)
    start = _F8_VERTEX_CYCLES if work.dtype == "float8" else _VERTEX_1X1_CYCLES
    return CALL_1X1_CYCLES + start + zero_list + groups


def amp_nx1_cycles(work: ContractionWork, target: Target, *, filter_rows: int = 1) -> Count:
    """Returns the cycles of a tile for filters of many positions, one after the other.

    Args:
        work: The tile's work, with the positions and channels of all rows of a pass as one.
        target: The machine.
        filter_rows: Rows of the filter in one pass: 1, 2 or 4.
    """
    in_groups = ceil_div(work.in_channels, AMP_GRAINS[work.dtype])
    columns = pass_columns(work.dtype, work.partials, target)
    out_groups = ceil_div(work.out_channels, columns)
    items, positions = work.items_of_slowest_worker(target)
    start = 18 if work.partials == "float16" else 17
    worker = start + items * (3 + _item_nx1(positions, work.dtype, target)) - _RETENTION_NX1_SLOTS
    load = weight_load_cycles(work.dtype, columns, target)
    tap = 12 + load + _ROW_LOAD_CYCLES[filter_rows] + 3 + barrel_cycles(worker, target)
    inner = 14 * work.tap_rows + work.taps * tap
    partial_bytes = 2 if work.partials == "float16" else 4
    outputs = work.positions * columns
    vectors = ceil_div(
        ceil_div(outputs * partial_bytes, target.store_bytes_per_cycle), target.workers
    )
    zeroing = out_groups * (17 + barrel_cycles(15 + vectors, target))
    groups = 16 + zeroing + in_groups * (14 + out_groups * (14 + inner))
    return _VERTEX_NX1_CYCLES + barrel_cycles(9 + 10, target) + work.groups * groups


def pass_columns(dtype: str, partials: str, target: Target) -> int:
    """Returns the output channels that one pass computes side by side.

    A vertex stores the partial results of a position in the slots in which it passes the units.
    Mk2 stores 16 float16 in the four slots of a float16 position, but only 8 float32: the ISA's
    `f16v4sisoamp` takes two partials an instruction, `f16v4hihov4amp` four.
    """
    # The units add up products of float8 in float16, and those of float32 in float32.
    wide = dtype == "float32" or (dtype == "float16" and partials == "float32")
    storable = position_slots(dtype, target) * target.store_bytes_per_cycle // (4 if wide else 2)
    return min(target.amp_columns, storable)


def weight_load_cycles(dtype: str, columns: int, target: Target) -> int:
    """Returns the cycles to load the weights of one pass of so many columns."""
    pass_bytes = columns * AMP_GRAINS[dtype] * INPUT_BYTES[dtype]
    return pass_bytes // target.narrow_load_bytes_per_cycle


def position_slots(dtype: str, target: Target) -> int:
    """Returns the slots in which one position passes all units."""
    return AMP_GRAINS[dtype] * target.amp_columns // target.macs_per_cycle(dtype)


def _inner_1x1(work: ContractionWork, target: Target, *, zeroing: bool) -> Count:
    """Returns the cycles from starting the workers of a pass to the last one's end."""
    slowest = _worker_1x1(ceil_div(work.positions, target.workers), work, target, zeroing)
    fastest = _worker_1x1(work.positions // target.workers, work, target, zeroing)
    return np.maximum(
        barrel_cycles(slowest, target), barrel_cycles(fastest, target) + _FASTEST_WORKER_CYCLES
    )


def _worker_1x1(positions: Count, work: ContractionWork, target: Target, zeroing: bool) -> Count:
    """Returns a worker's slots for its positions in one pass."""
    if work.dtype == "float32":
        slots = _by_positions(positions, (24, 47, 46, 46), work.dtype, target)
        # The units take no zero in float32: partials are zeroed in memory first.
        columns = pass_columns(work.dtype, work.partials, target)
        stores = ceil_div(columns * 4, target.store_bytes_per_cycle)
        return slots + (2 + stores * positions if zeroing else 0)
    if work.dtype == "float8":
        return 17 + _by_positions(positions, (4, 18, 23, 27), work.dtype, target)
    first_slots = (21, 32, 41, 37) if zeroing else (22, 33, 42, 38)
    return _by_positions(positions, first_slots, work.dtype, target) - _RETENTION_1X1_SLOTS


def _item_nx1(positions: Count, dtype: str, target: Target) -> Count:
    """Returns the slots of one work item."""
    first_slots = (17, 33, 44, 45) if dtype == "float32" else (17, 29, 34, 34)
    return _by_positions(positions, first_slots, dtype, target)


def _by_positions(
    positions: Count, first_slots: tuple[int, int, int, int], dtype: str, target: Target
) -> Count:
    """Returns a worker's slots for its positions.

    Args:
        positions: Number of positions.
        first_slots: The slots of 0, 1, 2 and 3 of them on the chips of the estimates.
        dtype: Type of the inputs.
        target: The machine.
    """
    count, each = np.asarray(positions), position_slots(dtype, target)
    first = np.take(first_slots, np.clip(count, 0, 3))
    first = first + np.minimum(count, 3) * (each - _SLOTS[dtype])
    return first + each * np.maximum(count - 3, 0)
