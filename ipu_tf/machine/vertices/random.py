"""Vertices that draw random numbers with the tile's generator (xoroshiro128aox).

Cycles as in poplibs' `lib/poprand`: a start per worker, then loops of the tile as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping

from ipu_tf.machine.cost import Count, ceil_div
from ipu_tf.machine.target import Target
from ipu_tf.machine.vertices.vertex import Vertex, dtype_bytes, vector_elements, vertex
from ipu_tf.machine.workers import barrel_cycles

_CALL_CYCLES = 4
_START_SLOTS = {2: 24, 4: 22}
"""Of a worker, by the bytes of an element."""

_BITS_CYCLES_PER_VECTOR = 1  # a 64-bit word of the generator and its store, six workers at once
_UNIFORM_CYCLES_PER_VECTOR = 4
_NORMAL_CYCLES_PER_VECTOR = 4  # the generator sums uniform numbers in one instruction (f32v2grand)

_DROPOUT_CALL_CYCLES = 6
_DROPOUT_START_SLOTS = 24
_DROPOUT_CYCLES_PER_VECTOR = 2

_TRUNCATED_STARTS = {2: 28, 4: 26}
"""Slots of a worker, by the bytes of an element."""

_TRUNCATED_ROUND_CYCLES = {2: 12, 4: 11}
"""Cycles of a vector to draw it again and keep the elements within the bounds."""

_TRUNCATED_VECTOR_CYCLES = 5
_TRUNCATED_ROUNDS = 3
"""Until a number is outside of two deviations with a chance of at most 1e-4: erfc(sqrt(2)) is
0.0455."""


def random_bits(elements: Count, dtype: str, target: Target) -> Vertex:
    """Returns the cost to store raw bits of the generator."""
    return _draw("random_bits", elements, dtype, target, _BITS_CYCLES_PER_VECTOR, bundles=16)


def random_uniform(elements: Count, dtype: str, target: Target) -> Vertex:
    """Returns the cost of uniform numbers in a range."""
    return _draw("random_uniform", elements, dtype, target, _UNIFORM_CYCLES_PER_VECTOR, bundles=24)


def random_normal(elements: Count, dtype: str, target: Target) -> Vertex:
    """Returns the cost of normal numbers."""
    return _draw("random_normal", elements, dtype, target, _NORMAL_CYCLES_PER_VECTOR, bundles=28)


def random_truncated_normal(elements: Count, dtype: str, target: Target) -> Vertex:
    """Returns the cost of normal numbers within two deviations of their mean."""
    again = _of_type(_TRUNCATED_ROUND_CYCLES, dtype)
    rate = _TRUNCATED_ROUNDS * again + _TRUNCATED_VECTOR_CYCLES
    name, starts = "random_truncated_normal", _TRUNCATED_STARTS
    return _draw(name, elements, dtype, target, rate, bundles=56, starts=starts)


def dropout(elements: Count, dtype: str, target: Target) -> Vertex:
    """Returns the cost to draw a mask, and to scale the elements where it is set."""
    loops = ceil_div(elements, vector_elements(dtype))
    cycles = _DROPOUT_CALL_CYCLES + barrel_cycles(_DROPOUT_START_SLOTS, target)
    cycles = cycles + _DROPOUT_CYCLES_PER_VECTOR * loops
    return vertex("dropout", dtype, elements, cycles, pointers=5, bundles=24)


def _of_type(slots: Mapping[int, int], dtype: str) -> int:
    """Returns the entry for the bytes of a type; that of 32 bits for other sizes."""
    return slots.get(dtype_bytes(dtype), slots[4])


def _draw(
    name: str,
    elements: Count,
    dtype: str,
    target: Target,
    rate: int,
    *,
    bundles: int,
    starts: Mapping[int, int] = _START_SLOTS,
) -> Vertex:
    start = _of_type(starts, dtype)
    loops = ceil_div(elements, vector_elements(dtype))
    cycles = _CALL_CYCLES + barrel_cycles(start, target) + rate * loops
    return vertex(name, dtype, elements, cycles, pointers=4, bundles=bundles)
