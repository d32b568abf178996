"""Element-wise vertices whose second operand repeats: by channels, or by rows.

Source: the cycle estimators of poplibs' broadcast vertices (popops, VectorInner and VectorOuter),
which its normalisations run. Channels are innermost and differ in their value; the elements of a
row share one. Does not model channels of a width for which there is no vector code: tensors of the
library are grouped by 4 channels or more where their channels divide by that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipu_tf.machine.cost import Count, ceil_div
from ipu_tf.machine.target import Target
from ipu_tf.machine.vertices.vertex import Vertex, dtype_bytes, vector_elements, vertex
from ipu_tf.machine.workers import barrel_cycles, slowest_share

_SUPERVISOR_CYCLES = 8
FEATURE_GROUP = 16
"""Elements of the innermost dimension that lie side by side in a block, such as channels; the next
ones follow behind the last position. They are the columns of an AMP pass (poplibs keeps the output
channels of a plan in groups of as many)."""

_VERTICES_OF_ALL_WORKERS = 2
"""Groups of channels up to which all workers share each; they share out more groups."""

_SHARED_OUT_START_SLOTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loop:
    """Slots of a worker.

    Attributes:
        start: Before its first group of channels.
        edge: To go on to another group, where workers share out groups.
        channels: Channels that a loop covers at a time.
        begin: To begin and end a loop.
        position: Of a loop, for all of its channels at one position.
        single: Of a loop over a single position, all in all.
    """

    start: int
    edge: int
    channels: int
    begin: int
    position: int
    single: int


_LOOPS = {
    "add": {
        2: _Loop(start=35, edge=27, channels=8, begin=13, position=2, single=7),
        4: _Loop(start=19, edge=17, channels=1, begin=8, position=2, single=10),
    },
    "multiply": {
        2: _Loop(start=29, edge=26, channels=4, begin=9, position=1, single=9),
        4: _Loop(start=19, edge=16, channels=1, begin=8, position=2, single=10),
    },
    "multiply in place": {
        2: _Loop(start=25, edge=22, channels=4, begin=7, position=2, single=9),
        4: _Loop(start=19, edge=16, channels=1, begin=8, position=2, single=10),
    },
}
"""Loops by operation and the bytes of an element. A product out of place loads and stores halves in
one slot; in place it cannot."""

_ROW_START_SLOTS = 15
_ROW_SLOTS = 7
_ROW_SLOTS_PER_VECTOR = 2


def by_channels(
    opcode: str, elements: Count, channels: Count, dtype: str, target: Target
) -> Vertex:
    """Returns the cost to add a value of every channel, or to multiply by it.

    Args:
        opcode: "add", "multiply" or "multiply in place".
        elements: Elements of the tile.
        channels: Channels of the tile.
        dtype: Type of elements and values.
        target: The machine.
    """
    loop = _LOOPS[opcode][min(4, max(2, dtype_bytes(dtype)))]
    channels = np.maximum(1, channels)
    groups = ceil_div(channels, FEATURE_GROUP)
    loops = ceil_div(np.minimum(channels, FEATURE_GROUP), loop.channels)
    positions = np.maximum(1, ceil_div(elements, channels))
    shared = slowest_share(positions, target)
    loop_slots = np.where(shared > 1, loop.begin + loop.position * shared, loop.single)
    together = groups * (loop.start + loops * loop_slots)
    share = slowest_share(groups * positions, target)
    periods = ceil_div(share, positions)
    loop_slots = np.where(
        share > periods,
        loop.begin * periods + loop.position * share,
        loop.single * periods,
    )
    apart = _SHARED_OUT_START_SLOTS + loop.edge * periods + loops * loop_slots
    slots = np.where(groups <= _VERTICES_OF_ALL_WORKERS, together, apart)
    cycles = _SUPERVISOR_CYCLES + barrel_cycles(slots, target)
    name = f"{opcode}_by_channels".replace(" ", "_")
    return vertex(name, dtype, elements, cycles, pointers=4, bundles=40)


def by_rows(
    opcode: str, elements: Count, row_elements: Count, dtype: str, target: Target
) -> Vertex:
    """Returns the cost to add a value of every row, or to multiply by it.

    A row lies in pieces, one in each group of features. Workers share out short pieces, and share
    each piece that has a vector for all of them (poplibs, popops/ElementWise.cpp).

    Args:
        opcode: "add", "multiply" or "multiply in place".
        elements: Elements of the tile.
        row_elements: Elements of a row on the tile.
        dtype: Type of elements and values.
        target: The machine.
    """
    piece = np.clip(row_elements, 1, FEATURE_GROUP)
    pieces = ceil_div(elements, piece)
    width = vector_elements(dtype)
    vectors = ceil_div(piece, width)
    by_row = slowest_share(pieces, target) * (_ROW_SLOTS + _ROW_SLOTS_PER_VECTOR * vectors)
    shared = slowest_share(vectors, target)
    by_column = pieces * (_ROW_SLOTS + _ROW_SLOTS_PER_VECTOR * shared)
    slots = _ROW_START_SLOTS + np.where(piece < target.workers * width, by_row, by_column)
    cycles = _SUPERVISOR_CYCLES + barrel_cycles(slots, target)
    name = f"{opcode}_by_rows".replace(" ", "_")
    return vertex(name, dtype, elements, cycles, pointers=4, bundles=32)
