"""Cycles of the elementary steps of a tile program, as pure functions.

Every function takes plain integers or NumPy integer arrays (thousands of candidate plans at once)
and gives cycles of the same kind. Models the AMP unit, one exchange phase, the addition of
partials and the sync. Does not model the other convolution methods (SLIC, MAC loops, outer
product), layout transforms, casts, exchange congestion or paired-tile broadcast.

Source of the vertex constants: the published cycle estimators of poplibs
(lib/poplin/PerformanceEstimation.hpp, release 3.4), reduced to their leading terms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ipu_tf.machine.target import Target

Count: TypeAlias = Any
"""A number of things: an int, or an integer array with one entry per candidate plan."""

_AMP_VERTEX_CYCLES = 150
"""Entry, outer loops and worker start of a 1x1 AMP vertex."""

_AMP_PASS_CYCLES = 170
"""A pass beyond its rows: 6 workers x about 25 cycles of set-up, and the supervisor's loop."""

_REDUCE_VERTEX_CYCLES = 33
_REDUCE_WORKER_CYCLES = 30
_REDUCE_CYCLES_PER_VECTOR = 2
_REDUCE_VECTOR_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cycles by what they are spent on. Adds up with `+`."""

    compute_cycles: Count = 0
    exchange_cycles: Count = 0
    sync_cycles: Count = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            compute_cycles=self.compute_cycles + other.compute_cycles,
            exchange_cycles=self.exchange_cycles + other.exchange_cycles,
            sync_cycles=self.sync_cycles + other.sync_cycles,
        )

    @property
    def total_cycles(self) -> Count:
        """Cycles of the whole: the three follow one another."""
        return self.compute_cycles + self.exchange_cycles + self.sync_cycles


def ceil_div(dividend: Count, divisor: Count) -> Count:
    """Returns the quotient rounded up."""
    return -(-dividend // divisor)


def amp_cycles(
    *, rows: Count, columns: Count, reduction_passes: Count, grain: int, dtype: str, target: Target
) -> Count:
    """Returns the cycles of one tile's multiply-accumulates on the AMP unit.

    A pass loads weights for `grain` reduction elements x `target.amp_columns` columns and streams
    the rows past them, dealt to the workers; the slowest worker counts.

    Args:
        rows: Rows of the block (output positions of a convolution).
        columns: Columns of the block (output channels).
        reduction_passes: Passes that cover the block's reduction, for one column group.
        grain: Reduction elements of a pass.
        dtype: Type of the inputs.
        target: The machine.
    """
    element_bytes = 2 if dtype == "float16" else 4
    pass_macs = grain * target.amp_columns
    weight_load_cycles = pass_macs * element_bytes // target.load_bytes_per_cycle
    row_cycles = ceil_div(pass_macs, target.macs_per_cycle(dtype))
    rows_of_slowest_worker = ceil_div(rows, target.workers)
    passes = reduction_passes * ceil_div(columns, target.amp_columns)
    pass_cycles = (
        weight_load_cycles + _AMP_PASS_CYCLES + rows_of_slowest_worker * target.workers * row_cycles
    )
    return _AMP_VERTEX_CYCLES + passes * pass_cycles


def exchange_cycles(received_bytes: Count, target: Target) -> Count:
    """Returns the cycles of a phase in which the busiest tile receives `received_bytes`."""
    moving = ceil_div(received_bytes, target.exchange_bytes_per_cycle)
    return np.where(moving > 0, target.exchange_fixed_cycles + moving, 0)


def reduce_cycles(*, elements: Count, depth: Count, partial_bytes: int, target: Target) -> Count:
    """Returns the cycles in which one tile adds up `depth` partials of `elements` each."""
    vectors = ceil_div(elements * partial_bytes, _REDUCE_VECTOR_BYTES)
    vectors_of_slowest_worker = ceil_div(vectors, target.workers)
    worker = _REDUCE_WORKER_CYCLES + _REDUCE_CYCLES_PER_VECTOR * depth * vectors_of_slowest_worker
    return np.where(depth > 1, _REDUCE_VERTEX_CYCLES + target.workers * worker, 0)
