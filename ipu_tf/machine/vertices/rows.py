"""Vertices that look up and update rows of a table at indices known at run time.

Cycles: `W x (start + hits x slots of a row + misses x slots of a miss)`, poplibs' estimators of
MultiSlice, MultiUpdate and MultiUpdateOp. The workers of a look-up share the indices. Those of an
update share the rows, so that no two write to one: each of them visits all indices. A tile that
holds part of a table's rows misses the others; as poplibs' planner does, this takes indices to be
spread evenly over the rows.
"""

from __future__ import annotations

import numpy as np

from ipu_tf.machine.cost import Count, Measure, as_counts, ceil_div
from ipu_tf.machine.target import Target
from ipu_tf.machine.vertices.vertex import Vertex, dtype_bytes, vertex
from ipu_tf.machine.workers import barrel_cycles, slowest_share

_WORD_BYTES = 4  # the least that a tile stores at once

_SLICE_START_SLOTS = 30
_WRITE_START_SLOTS = 29
_COPY_HIT_SLOTS = 19
_COPY_MISS_SLOTS = 8
_COPIED_BYTES_AND_SLOTS = {1: (4, 3), 2: (4, 2), 4: (8, 2)}
"""Bytes that the loop of a copy moves at once and their slots, by the bytes of an element."""

_ADD_START_SLOTS = {2: 37, 4: 38}
_ADD_HIT_SLOTS = {2: 13, 4: 11}
_ADD_MISS_SLOTS = 5
_ADD_SLOTS_PER_WORD = 3
_ADD_SHORT_ROW_SLOTS = {(4, 2): 8, (4, 4): 16, (2, 4): 9}
"""Slots of a hit in rows of one or two vectors, which have loops of their own, by the bytes of an
element and the elements of a row."""

_ADD_SLOTS_PER_HALF_OF_WORD = 20  # rows of an odd number of halves


def multi_slice(
    row_elements: Count,
    offsets: Count,
    dtype: str,
    target: Target,
    *,
    rows: Count = 1,
    held_rows: Count = 1,
) -> Vertex:
    """Returns the cost of looking up rows (gather).

    Args:
        row_elements: Elements of the tile's share of a row.
        offsets: Rows to look up; a tile visits every offset, even those of rows on other tiles.
        dtype: Type of the elements.
        target: The machine.
        rows: Rows of the table.
        held_rows: Those of them on the tile.
    """
    row_slots = _copy_slots(row_elements, offsets, dtype, target)
    share = slowest_share(offsets, target)
    slots = _SLICE_START_SLOTS + _visit_slots(share, held_rows, rows, row_slots, _COPY_MISS_SLOTS)
    return _vertex("multi_slice", row_elements, offsets, dtype, barrel_cycles(slots, target))


def multi_update(
    row_elements: Count,
    offsets: Count,
    dtype: str,
    target: Target,
    *,
    rows: Count,
    held_rows: Count,
    accumulate: bool = True,
) -> Vertex:
    """Returns the cost of writing rows, or of combining them with what is there (scatter).

    Args:
        row_elements: Elements of the tile's share of a row.
        offsets: Rows to write; every worker visits them all.
        dtype: Type of the elements.
        target: The machine.
        rows: Rows of the table.
        held_rows: Those of them on the tile, which its workers share.
        accumulate: Whether rows are added (or the like), not overwritten.
    """
    worker_rows = slowest_share(held_rows, target)
    if accumulate:
        start = _ADD_START_SLOTS.get(dtype_bytes(dtype), _ADD_START_SLOTS[4])
        row_slots, miss = _add_slots(row_elements, dtype), _ADD_MISS_SLOTS
    else:
        start, miss = _WRITE_START_SLOTS, _COPY_MISS_SLOTS
        row_slots = _copy_slots(row_elements, offsets, dtype, target)
    slots = start + _visit_slots(offsets, worker_rows, rows, row_slots, miss)
    name = "multi_update_add" if accumulate else "multi_update"
    return _vertex(name, row_elements, offsets, dtype, barrel_cycles(slots, target))


def _visit_slots(
    offsets: Count, own_rows: Count, rows: Count, row_slots: Count, miss: int
) -> Count:
    """Returns the slots in which a worker visits offsets, of which a share is of its rows."""
    hits = np.minimum(offsets, ceil_div(as_counts(offsets) * own_rows, rows))
    return hits * row_slots + (offsets - hits) * miss


def _copy_slots(row_elements: Count, offsets: Count, dtype: str, target: Target) -> Count:
    """Returns the slots of copying a row; the workers share a single one."""
    size = dtype_bytes(dtype)
    width, slots = _COPIED_BYTES_AND_SLOTS[min(size, 4)]
    vectors = ceil_div(np.asarray(row_elements) * size, width)
    copies: Count = np.where(np.asarray(offsets) == 1, slowest_share(vectors, target), vectors)
    return _COPY_HIT_SLOTS + slots * copies


def _add_slots(row_elements: Count, dtype: str) -> Count:
    """Returns the slots of adding a row; modelled for types of one byte: as for halves."""
    size = max(2, dtype_bytes(dtype))
    elements = np.asarray(row_elements)
    start = _ADD_HIT_SLOTS[min(size, 4)]
    words = ceil_div(elements * size, _WORD_BYTES)
    slots = np.where(
        elements * size % _WORD_BYTES,
        start + _ADD_SLOTS_PER_HALF_OF_WORD * elements,
        start + _ADD_SLOTS_PER_WORD * (words - 1),
    )
    for (bytes_, short), short_row_slots in _ADD_SHORT_ROW_SLOTS.items():
        if bytes_ == size:
            slots = np.where(elements == short, short_row_slots, slots)
    return slots


def _vertex(name: str, row_elements: Count, offsets: Count, dtype: str, cycles: Measure) -> Vertex:
    work = as_counts(row_elements) * offsets
    return vertex(name, dtype, work, cycles, pointers=8, bundles=64)
