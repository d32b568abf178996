"""Element-wise vertices whose second operand repeats: by channels, or by rows.

Source: the cycle estimators of poplibs' broadcast vertices (popops, VectorInner and VectorOuter),
which its normalisations run. Channels are innermost and differ in their value; the elements of a
row share one. Does not model channels of a width for which there is no vector code: tensors of the
library are grouped by 4 channels or more where their channels divide by that.
"""

from __future__ import annotations

import numpy as np

from ipu_tf.machine.cost import Count, ceil_div
from ipu_tf.machine.target import Target
from ipu_tf.machine.vertices.vertex import Vertex, dtype_bytes, vector_elements, vertex
from ipu_tf.machine.workers import barrel_cycles, slowest_share

_SUPERVISOR_CYCLES = 8
_START_SLOTS = {"add": {2: 35, 4: 19}, "multiply": {2: 29, 4: 19}}
"""Slots of a worker before its first channel, by operation and the bytes of an element."""

_GROUP_SLOTS = {"add": {2: 13, 4: 8}, "multiply": {2: 9, 4: 8}}
"""Slots of a worker to start on a group of channels, and to leave it."""

_GROUP_CHANNELS = {"add": {2: 8, 4: 1}, "multiply": {2: 4, 4: 1}}
"""Channels that a loop covers at a time."""

_SLOTS_PER_GROUP = {"add": {2: 2, 4: 2}, "multiply": {2: 1, 4: 2}}
"""Slots of a loop: for all channels of a group, at one position. Products are out of place, so that
halves are loaded and stored in one slot; sums are in place."""

_ROW_START_SLOTS = 15
_ROW_SLOTS = 7
_ROW_SLOTS_PER_VECTOR = 2


def by_channels(
    opcode: str, elements: Count, channels: Count, dtype: str, target: Target
) -> Vertex:
    """Returns the cost to add a value of every channel, or to multiply by it.

    Args:
        opcode: "add" or "multiply".
        elements: Elements of the tile.
        channels: Channels of the tile.
        dtype: Type of elements and values.
        target: The machine.
    """
    size = min(4, max(2, dtype_bytes(dtype)))
    channels = np.maximum(1, channels)
    groups = ceil_div(channels, _GROUP_CHANNELS[opcode][size])
    positions = slowest_share(ceil_div(elements, channels), target)
    slots = _START_SLOTS[opcode][size] + groups * (
        _GROUP_SLOTS[opcode][size] + _SLOTS_PER_GROUP[opcode][size] * positions
    )
    cycles = _SUPERVISOR_CYCLES + barrel_cycles(slots, target)
    return vertex(f"{opcode}_by_channels", dtype, elements, cycles, pointers=4, bundles=40)


def by_rows(
    opcode: str, elements: Count, row_elements: Count, dtype: str, target: Target
) -> Vertex:
    """Returns the cost to add a value of every row, or to multiply by it.

    Args:
        opcode: "add" or "multiply".
        elements: Elements of the tile.
        row_elements: Elements of a row on the tile.
        dtype: Type of elements and values.
        target: The machine.
    """
    rows = slowest_share(ceil_div(elements, np.maximum(1, row_elements)), target)
    vectors = ceil_div(np.maximum(1, row_elements), vector_elements(dtype))
    slots = _ROW_START_SLOTS + rows * (_ROW_SLOTS + _ROW_SLOTS_PER_VECTOR * vectors)
    cycles = _SUPERVISOR_CYCLES + barrel_cycles(slots, target)
    return vertex(f"{opcode}_by_rows", dtype, elements, cycles, pointers=4, bundles=32)
