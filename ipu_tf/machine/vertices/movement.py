"""Vertices that move values within a tile: copies, transposes, slices.

Copies belong to the closed part of the SDK; only their rate, 8 bytes a cycle, is published, and a
regression over random shapes. The model uses its growth with the bytes of the smallest piece:
pieces that are a multiple of 8 bytes move at the full rate, others word by word or element by
element. Slices follow poplibs: `25 + W x (39 + (24 + 2 x vectors) x slices)` for one dynamic slice.
Look-ups and updates of rows are in `rows.py`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ipu_tf.machine.cost import Count, Counts, as_counts, ceil_div
from ipu_tf.machine.target import Target
from ipu_tf.machine.vertices.vertex import VECTOR_BYTES, Vertex, dealt_cycles, dtype_bytes, vertex
from ipu_tf.machine.workers import barrel_cycles

_COPY_START_CYCLES = 25  # modelled: as a dynamic slice's supervisor
_COPY_BYTES_PER_CYCLE = 8
_CYCLES_PER_BYTE_IN_WORDS = 3.1
_CYCLES_PER_BYTE_IN_HALVES = 5.1
"""poplibs' regression for pieces of 4 and of 2 bytes. Modelled: single bytes cost twice a half."""

_TRANSPOSE_BLOCK = 4
_FAST_TRANSPOSE_CYCLES_PER_VECTOR = 1
_SLOW_TRANSPOSE_CYCLES_PER_VECTOR = 5
_TRANSPOSE_START_SLOTS = 25

_SLICE_SUPERVISOR_CYCLES = 25
_SLICE_START_SLOTS = 39
_SLICE_SLOTS = 24
_SLOTS_PER_VECTOR = 2

_REARRANGED_CYCLES_PER_BYTE = 0.44
"""The same regression for pieces of whole vectors."""


def rearranged_cycles(moved_bytes: Count, piece_bytes: Count) -> Counts:
    """Returns the cycles in which a tile packs and unpacks a tensor that changes its layout.

    poplibs' regression over random changes of layout; its intercept is the exchange's own start.

    Args:
        moved_bytes: Bytes of the tile.
        piece_bytes: Bytes that lie side by side both before and after.
    """
    piece = np.maximum(1, piece_bytes)
    rate = np.maximum(_copy_cycles_per_byte(piece, moved_bytes), _REARRANGED_CYCLES_PER_BYTE)
    return np.asarray(np.ceil(moved_bytes * rate), dtype=np.int64)


def copy(elements: Count, dtype: str, target: Target, *, piece_elements: Count = 0) -> Vertex:
    """Returns the cost of a copy or rearrangement within a tile.

    Args:
        elements: Elements that move.
        dtype: Their type.
        target: The machine.
        piece_elements: Elements that lie side by side both before and after; 0 for all of them.
    """
    moved_bytes = np.asarray(elements) * dtype_bytes(dtype)
    piece = np.asarray(piece_elements) * dtype_bytes(dtype)
    piece = np.asarray(np.where(piece > 0, piece, np.maximum(moved_bytes, 1)))
    pieces = ceil_div(moved_bytes, piece)
    cycles = _COPY_START_CYCLES + pieces + moved_bytes * _copy_cycles_per_byte(piece, moved_bytes)
    return vertex("copy", dtype, elements, cycles, pointers=3, bundles=30)


def transpose(rows: Count, columns: Count, dtype: str, target: Target) -> Vertex:
    """Returns the cost of transposing a matrix on a tile.

    f16 in blocks of 4 x 4 has a vector codelet; everything else moves element by element.
    """
    size = dtype_bytes(dtype)
    elements = as_counts(rows) * columns
    blocks = (np.asarray(rows) % _TRANSPOSE_BLOCK == 0) & (
        np.asarray(columns) % _TRANSPOSE_BLOCK == 0
    )
    vectors = ceil_div(elements * size, VECTOR_BYTES)
    fast = (
        barrel_cycles(_TRANSPOSE_START_SLOTS, target) + _FAST_TRANSPOSE_CYCLES_PER_VECTOR * vectors
    )
    slow = (
        barrel_cycles(_TRANSPOSE_START_SLOTS, target) + _SLOW_TRANSPOSE_CYCLES_PER_VECTOR * vectors
    )
    cycles = np.where(blocks & (size == 2), fast, slow)
    return vertex("transpose", dtype, elements, cycles, pointers=4, bundles=48)


def dynamic_slice(slice_elements: Count, slices: Count, dtype: str, target: Target) -> Vertex:
    """Returns the cost to copy a window whose position is known only at run time.

    Args:
        slice_elements: Elements of the tile's share of one slice, side by side.
        slices: Number of such runs on the tile (rows of the window).
        dtype: Type of the elements.
        target: The machine.
    """
    return _slices("dynamic_slice", slice_elements, slices, dtype, target, _SLOTS_PER_VECTOR)


def dynamic_update(slice_elements: Count, slices: Count, dtype: str, target: Target) -> Vertex:
    """Returns the cost to overwrite a window whose position is known only at run time."""
    return _slices("dynamic_update", slice_elements, slices, dtype, target, _SLOTS_PER_VECTOR)


def _copy_cycles_per_byte(piece: NDArray[np.int64], moved_bytes: Count) -> NDArray[np.float64]:
    """Returns the rate for pieces of so many bytes: that of the widest unit that divides them.

    Of pieces of an odd number of halves only the first starts at a word, however long they are. A
    single piece starts aligned, and moves by vectors up to its last word.
    """
    halves = np.where(piece % 2 == 0, _CYCLES_PER_BYTE_IN_HALVES, 2 * _CYCLES_PER_BYTE_IN_HALVES)
    narrow = np.where(piece % 4 == 0, _CYCLES_PER_BYTE_IN_WORDS, halves)
    is_single = (piece >= moved_bytes) & (piece >= 4 * VECTOR_BYTES)
    by_vectors = (piece % VECTOR_BYTES == 0) | is_single
    return np.where(by_vectors, 1 / _COPY_BYTES_PER_CYCLE, narrow)


def _slices(
    name: str, elements: Count, slices: Count, dtype: str, target: Target, slots: int
) -> Vertex:
    vectors = ceil_div(np.asarray(elements) * dtype_bytes(dtype), VECTOR_BYTES)
    cycles = _SLICE_SUPERVISOR_CYCLES + dealt_cycles(
        slices,
        target,
        slots_per_item=_SLICE_SLOTS + slots * vectors,
        start_slots=_SLICE_START_SLOTS,
    )
    work = as_counts(elements) * slices
    return vertex(name, dtype, work, cycles, pointers=6, bundles=52)
