"""Vertices that sort on one tile, and that order pairs between tiles.

A tile sorts its share with a heap: poplibs' estimator of that vertex charges `19 n log2 n + 6 n`
steps of 8 cycles, a worst case. Across tiles a bitonic network exchanges and compares shares; one
of its steps is `compare_exchange`. Modelled: six workers sort a sixth each, at the same time, and
merge; a compared pair takes eight slots, a value that goes along with its key four more.
"""

from __future__ import annotations

import numpy as np

from ipu_tf.machine.cost import Count
from ipu_tf.machine.target import Target
from ipu_tf.machine.vertices.vertex import Vertex, dealt_cycles, dtype_bytes, vertex
from ipu_tf.machine.workers import barrel_cycles, slowest_share

_START_SLOTS = 30
_HEAP_CYCLES = 8
_HEAP_STEPS_PER_LEVEL = 19
_HEAP_STEPS = 6
_PAIR_SLOTS = 8
_VALUE_SLOTS = 4


def sort(elements: Count, dtype: str, target: Target, *, values: int = 0) -> Vertex:
    """Returns the cost of sorting a tile's share.

    Args:
        elements: Keys on the tile.
        dtype: Type of the keys.
        target: The machine.
        values: Number of tensors that are ordered along with the keys.
    """
    dtype_bytes(dtype)
    share = np.asarray(slowest_share(elements, target))
    levels = np.floor(np.log2(np.maximum(share, 1)))
    longer = _pair_slots(values) / _PAIR_SLOTS
    heap = _HEAP_CYCLES * (_HEAP_STEPS_PER_LEVEL * share * levels + _HEAP_STEPS * share) * longer
    # Half of the workers merge two shares each, then half of those, down to one.
    merges = sum(1 / max(target.workers >> level, 1) for level in range(1, target.workers // 2 + 1))
    merge = target.workers * (_pair_slots(values) * np.asarray(elements) * merges)
    cycles = barrel_cycles(_START_SLOTS, target) + heap + merge
    return vertex("sort", dtype, elements, cycles, pointers=3 + values, bundles=90)


def compare_exchange(pairs: Count, dtype: str, target: Target, *, values: int = 0) -> Vertex:
    """Returns the cost of ordering pairs of elements, one step of a bitonic network.

    Args:
        pairs: Pairs on the tile.
        dtype: Type of the keys.
        target: The machine.
        values: Number of tensors that are ordered along with the keys.
    """
    dtype_bytes(dtype)
    cycles = dealt_cycles(
        pairs, target, slots_per_item=_pair_slots(values), start_slots=_START_SLOTS
    )
    return vertex("compare_exchange", dtype, pairs, cycles, pointers=4 + values, bundles=40)


def top_k(elements: Count, k: Count, dtype: str, target: Target, *, values: int = 1) -> Vertex:
    """Returns the cost to find the `k` largest of a tile's share with a heap of `k`.

    Bound: compares every element with the smallest in the heap, and reorders the heap once for
    each element that stays.
    """
    dtype_bytes(dtype)
    largest = np.minimum(np.asarray(k), elements)
    levels = np.ceil(np.log2(np.maximum(largest, 2)))
    looks = _PAIR_SLOTS * np.asarray(slowest_share(elements, target))
    keeps = _pair_slots(values) * largest * levels
    cycles = barrel_cycles(_START_SLOTS + looks + keeps, target)
    return vertex("top_k", dtype, elements, cycles, pointers=4 + values, bundles=80)


def _pair_slots(values: int) -> int:
    return _PAIR_SLOTS + values * _VALUE_SLOTS
