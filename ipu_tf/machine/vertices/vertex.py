"""What costs of vertices are made of: sizes of types, items that workers share, the result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipu_tf.machine.cost import Count, Measure
from ipu_tf.machine.dtypes import DTYPE_BITS
from ipu_tf.machine.target import Target
from ipu_tf.machine.workers import slowest_share

VECTOR_BYTES = 8
"""Bytes of a vector register operand, and of a load or store (ISA 3.7)."""

_POINTER_BYTES = 4
_BUNDLE_BYTES = 8
_WITHOUT_VERTICES = frozenset({"f64", "c64", "c128", "token"})
_WORD_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Vertex:
    """The cost of one compute set's vertices on one tile.

    Attributes:
        codelet: Name of the code; a tile holds it once, however many vertices run it.
        cycles: Tile cycles; 0 without work.
        state_bytes: Bytes of vertex state.
        code_bytes: Bytes of the codelet.
    """

    codelet: str
    cycles: Count
    state_bytes: Count
    code_bytes: int


def dtype_bytes(dtype: str) -> int:
    """Returns the bytes of an element in tile memory, by HLO's name of its type.

    Raises:
        ValueError: Tiles have no arithmetic for the type.
    """
    if dtype not in DTYPE_BITS or dtype in _WITHOUT_VERTICES:
        names = (name for name in DTYPE_BITS if name not in _WITHOUT_VERTICES)
        narrow = (name for name in names if DTYPE_BITS[name] <= 8 * _WORD_BYTES)
        raise ValueError(
            f"Vertices have no arithmetic for {dtype!r}: an IPU computes with at most 32 bits. "
            f"Cast to one of {', '.join(narrow)}. Received: {dtype!r}."
        )
    return DTYPE_BITS[dtype] // 8


def vector_elements(dtype: str) -> int:
    """Returns the elements of one 64-bit vector."""
    return VECTOR_BYTES // dtype_bytes(dtype)


def vertex(
    codelet: str, dtype: str, work: Count, cycles: Measure, *, pointers: Count, bundles: int
) -> Vertex:
    """Returns a vertex that costs nothing without work.

    Args:
        codelet: Its operation, such as "reduce".
        dtype: Type of the elements.
        work: Elements; 0 if the tile has none.
        cycles: Tile cycles if there is work.
        pointers: Pointers, sizes and scalars of its state.
        bundles: Instruction bundles of the code. Modelled.
    """
    has_work = np.asarray(work) > 0
    return Vertex(
        codelet=f"{codelet}_{dtype}",
        cycles=_plain(np.where(has_work, cycles, 0)),
        state_bytes=_plain(np.where(has_work, np.asarray(pointers) * _POINTER_BYTES, 0)),
        code_bytes=bundles * _BUNDLE_BYTES,
    )


def dealt_cycles(
    items: Count, target: Target, *, slots_per_item: Measure, start_slots: Count = 0
) -> Measure:
    """Returns the tile cycles of items that the workers share.

    Args:
        items: Number of items, all alike.
        target: The machine.
        slots_per_item: Instruction slots that a worker spends on an item.
        start_slots: Instruction slots of a worker besides its items.
    """
    return target.workers * (start_slots + slots_per_item * slowest_share(items, target))


def _plain(value: Measure) -> Count:
    """Returns an int for a single number, else an integer array."""
    whole = np.ceil(value).astype(np.int64)
    return int(whole) if whole.ndim == 0 else whole
