"""MAC vertices: dot products by worker instructions, without the AMP units.

Cycles after poplibs' estimators (lib/poplin/PerformanceEstimation.hpp, release 3.4). The horizontal
MAC adds up along input channels, four float16 or two float32 products a slot. The vertical MAC
keeps neighbouring groups side by side in a vector (depthwise convolutions; float16 only). The outer
product multiplies one input channel by a vector of output channels.
"""

from __future__ import annotations

import numpy as np

from ipu_tf.machine.contractions.work import ContractionWork
from ipu_tf.machine.cost import Count, ceil_div
from ipu_tf.machine.dtypes import INPUT_BYTES
from ipu_tf.machine.target import Target
from ipu_tf.machine.vertices.vertex import VECTOR_BYTES
from ipu_tf.machine.workers import barrel_cycles, slowest_share

VMAC_CHANNELS = 8

_HMAC_VERTEX_CYCLES = {"float32": 58, "float16": 65}
_HMAC_1X1_SAVING_CYCLES = 10
_DOT_SLOTS = 7
_OUTPUT_SLOTS = 7

_VMAC_VERTEX_CYCLES = 61 + 14 + 25
_VMAC_SLOTS_PER_ELEMENT = 3
_VMAC_ITEM_SLOTS = 15
_VMAC_WORKER_SLOTS = 12
"""Modelled: opening a row, and a worker; only the slope is published."""

_OUTER_VERTEX_CYCLES = 33
_OUTER_WORKER_SLOTS = 20
_OUTER_ROW_SLOTS = 9
_SLOTS_PER_OUTER_VECTOR = 2
"""Modelled: a worker's start, a row's, and a multiplication beside a load, then a store."""


def horizontal_mac_cycles(work: ContractionWork, target: Target) -> Count:
    """Returns the cycles of a tile's horizontal MAC vertices."""
    single_tap = np.asarray(work.taps) == 1
    saving = np.where(single_tap, 15, 6 if work.dtype == "float16" else 0)
    items, positions = work.items_of_slowest_worker(target)
    row_bytes = work.in_channels * INPUT_BYTES[work.dtype]
    vectors = ceil_div(row_bytes, VECTOR_BYTES)
    # A row that is narrower than a vector is read element by element.
    dot = (_DOT_SLOTS + vectors) * np.where(np.asarray(row_bytes) < VECTOR_BYTES, 2, 1)
    position = _OUTPUT_SLOTS + work.out_channels * dot
    item = np.where(single_tap, 13, 19) + positions * position
    inner = work.taps * barrel_cycles(16 - saving + items * item, target)
    start = _HMAC_VERTEX_CYCLES[work.dtype] - single_tap * _HMAC_1X1_SAVING_CYCLES
    return start + work.groups * (23 + 15 + 10 + inner)


def vertical_mac_cycles(work: ContractionWork, target: Target) -> Count:
    """Returns the cycles of a tile's vertical MAC vertices.

    Workers share rows of outputs under single filter positions; their results for the same row are
    added up afterwards.
    """
    packs = ceil_div(work.groups, VMAC_CHANNELS)
    row_positions = np.minimum(work.row_positions, work.positions)
    rows = ceil_div(work.positions, row_positions)
    items = slowest_share(rows * work.taps, target)
    item = _VMAC_ITEM_SLOTS + _VMAC_SLOTS_PER_ELEMENT * row_positions
    inner = barrel_cycles(_VMAC_WORKER_SLOTS + items * item, target)
    partial_vectors = work.positions * VMAC_CHANNELS * 4 // VECTOR_BYTES
    zeroing = barrel_cycles(15 + slowest_share(partial_vectors, target), target)
    sum_cycles = barrel_cycles(20 + slowest_share(partial_vectors, target), target)
    channels = work.in_channels * work.out_channels
    return _VMAC_VERTEX_CYCLES + packs * channels * (zeroing + 32 + 24 + inner + sum_cycles)


def outer_product_cycles(work: ContractionWork, target: Target) -> Count:
    """Returns the cycles of a tile's outer products, one for each element of the reduction."""
    vectors = ceil_div(work.out_channels * INPUT_BYTES[work.dtype], VECTOR_BYTES)
    rows = slowest_share(work.positions, target)
    worker = _OUTER_WORKER_SLOTS + rows * (_OUTER_ROW_SLOTS + _SLOTS_PER_OUTER_VECTOR * vectors)
    products = work.groups * work.in_channels * work.taps
    return _OUTER_VERTEX_CYCLES + products * barrel_cycles(worker, target)
