"""Vertices that add up partial results: within a stage, over stages, and in place.

Cycles of one stage after poplibs' convReduce (lib/poplin/PerformanceEstimation.hpp, release 3.4),
single-input form: the partials that were received are added to the tile's own.
"""

from __future__ import annotations

import numpy as np

from ipu_tf.machine.cost import Count, ceil_div
from ipu_tf.machine.target import Target
from ipu_tf.machine.vertices.vertex import VECTOR_BYTES
from ipu_tf.machine.workers import barrel_cycles, slowest_share

_REDUCE_VERTEX_CYCLES = 33
_REDUCE_WORKER_SLOTS = 20
_REDUCE_ROW_SLOTS = 9  # 7 to 10
_SLOTS_PER_PARTIAL = 2
"""For partials anywhere in memory, poplibs' default; 1 with its option `enableFastReduce`."""

_REDUCE_BYTES = 16
"""Bytes that a row of the reduction covers: 4 float32 or 8 float16 elements."""

_ADD_SUPERVISOR_CYCLES = 11
_ADD_WORKER_SLOTS = 58
_ADD_SLOTS_PER_VECTOR = 3


def reduce_cycles(*, elements: Count, depth: Count, partial_bytes: int, target: Target) -> Count:
    """Returns the cycles in which one tile adds up `depth` partials of `elements` each."""
    rows = slowest_share(ceil_div(elements * partial_bytes, _REDUCE_BYTES), target)
    worker = _REDUCE_WORKER_SLOTS + rows * (_SLOTS_PER_PARTIAL * (depth - 1) + _REDUCE_ROW_SLOTS)
    return np.where(depth > 1, _REDUCE_VERTEX_CYCLES + barrel_cycles(worker, target), 0)


def add_in_place_cycles(*, elements: Count, element_bytes: int, target: Target) -> Count:
    """Returns the cycles in which a tile adds `elements` to an accumulator of their type."""
    vectors = slowest_share(ceil_div(elements * element_bytes, VECTOR_BYTES), target)
    worker = _ADD_WORKER_SLOTS + _ADD_SLOTS_PER_VECTOR * vectors
    return _ADD_SUPERVISOR_CYCLES + barrel_cycles(worker, target)
