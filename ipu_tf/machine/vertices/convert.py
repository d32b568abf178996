"""Vertices that write values of another type, or the same value everywhere.

Cycles as in poplibs: `12 + W x (37 + vectors)` for casts, one 64-bit store a slot, and
`16 to 26 + size / vector` slots for fills. Modelled: an iota stores a vector in two slots.
"""

from __future__ import annotations

import numpy as np

from ipu_tf.machine.cost import Count, ceil_div
from ipu_tf.machine.target import Target
from ipu_tf.machine.vertices.inner_loops import FAMILY
from ipu_tf.machine.vertices.vertex import Vertex, dealt_cycles, vector_elements, vertex

_CAST_SUPERVISOR_CYCLES = 12
_CAST_START_SLOTS = 18 + 19
_SCALAR_CAST_SLOTS = 6
"""Slots of an element if no vector instruction converts it: load, convert, two moves between
register files, store, count. Modelled."""

_FILL_START_SLOTS = 23  # 16 + 7 of a remainder
_IOTA_START_SLOTS = 18
_VECTOR_CASTS = {"f32", "f16"}


def convert(elements: Count, source: str, result: str, target: Target) -> Vertex:
    """Returns the cost of a cast.

    Args:
        elements: Elements on the tile.
        source: Type to read.
        result: Type to write.
        target: The machine.
    """
    loads = ceil_div(elements, vector_elements(source))
    stores = ceil_div(elements, vector_elements(result))
    if {FAMILY[source], FAMILY[result]} <= _VECTOR_CASTS:
        items, slots = np.maximum(loads, stores), 1
    else:
        items, slots = elements, _SCALAR_CAST_SLOTS
    cycles = _CAST_SUPERVISOR_CYCLES + dealt_cycles(
        items, target, slots_per_item=slots, start_slots=_CAST_START_SLOTS
    )
    return vertex(f"cast_{source}", result, elements, cycles, pointers=3, bundles=44)


def fill(elements: Count, dtype: str, target: Target) -> Vertex:
    """Returns the cost of writing one value everywhere (also of zeroing)."""
    cycles = dealt_cycles(
        ceil_div(elements, vector_elements(dtype)),
        target,
        slots_per_item=1,
        start_slots=_FILL_START_SLOTS,
    )
    return vertex("fill", dtype, elements, cycles, pointers=3, bundles=24)


def iota(elements: Count, dtype: str, target: Target) -> Vertex:
    """Returns the cost of writing ascending numbers."""
    cycles = dealt_cycles(
        ceil_div(elements, vector_elements(dtype)),
        target,
        slots_per_item=2,
        start_slots=_IOTA_START_SLOTS,
    )
    return vertex("iota", dtype, elements, cycles, pointers=3, bundles=20)
