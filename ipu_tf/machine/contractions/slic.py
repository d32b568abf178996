"""SLIC vertices: four neighbouring filter columns at once, for narrow groups of channels.

Cycles after poplibs' estimators (lib/poplin/PerformanceEstimation.hpp, release 3.4): a group of
four channels (of one or several groups of the convolution) meets a 1 x 4 piece of the filter in
two passes over the data. float16 inputs only. Modelled: the middle of published ranges.
"""

from __future__ import annotations

import numpy as np

from ipu_tf.machine.contractions.work import ContractionWork
from ipu_tf.machine.cost import Count, ceil_div
from ipu_tf.machine.target import Target
from ipu_tf.machine.workers import barrel_cycles

SLIC_CHANNELS = 4
SLIC_COLUMNS = 4

_VERTEX_CYCLES = 109  # modelled: as an nx1 AMP vertex, whose loops it has
_WEIGHT_CYCLES = 16 + 21
_REARRANGE_SLOTS = 12
"""Workers put the weights of several groups in order; 10 to 13 slots."""

_PIECE_CYCLES = 25
_WORKER_SLOTS = 20
_ROW_SLOTS = 10
_PASSES = 2


def slic_cycles(work: ContractionWork, target: Target) -> Count:
    """Returns the cycles of a tile's SLIC vertices."""
    widest = np.maximum(work.in_channels, work.out_channels)
    per_pack = np.maximum(1, SLIC_CHANNELS // np.minimum(widest, SLIC_CHANNELS))
    packs = ceil_div(work.groups, per_pack)
    packs = packs * ceil_div(work.in_channels, SLIC_CHANNELS)
    packs = packs * ceil_div(work.out_channels, SLIC_CHANNELS)
    pieces = work.tap_rows * ceil_div(ceil_div(work.taps, work.tap_rows), SLIC_COLUMNS)
    items, positions = work.items_of_slowest_worker(target)
    row = _ROW_SLOTS + _row_slots(positions, work.stride)
    merged_sums = 2 + 2 * items * positions if work.partials == "float16" else 0
    worker = _WORKER_SLOTS + _PASSES * items * row
    piece = _PIECE_CYCLES + _WEIGHT_CYCLES + barrel_cycles(_REARRANGE_SLOTS + worker, target)
    return _VERTEX_CYCLES + packs * (pieces * piece + barrel_cycles(merged_sums, target))


def _row_slots(positions: Count, stride: int) -> Count:
    """Returns the slots of one pass over a row of outputs."""
    if stride == 1:
        return 15 + np.maximum(0, positions - 5)
    return 15 + 2 * np.maximum(0, positions - 3)
