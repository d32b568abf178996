"""Vertices that reduce on one tile: `depth` operands into each of `outputs` results.

Cycles: `33 + W x (start + slots a vector x vectors)`, after poplibs' planner of popops::reduce and
the vertices it makes. Workers share the outputs; if there are too few outputs for all workers, they
share the depth instead, and a second vertex adds up their results.
Models sums, products, minima, maxima and the like alike.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ipu_tf.machine.cost import Count, as_counts, ceil_div
from ipu_tf.machine.target import Target
from ipu_tf.machine.vertices.inner_loops import FAMILY
from ipu_tf.machine.vertices.vertex import Vertex, vector_elements, vertex
from ipu_tf.machine.workers import barrel_cycles, slowest_share

_VERTEX_CYCLES = 33
_WORKER_SLOTS = 16
_ROW_SLOTS = 6
"""A worker starts once and opens every row: a vector of outputs, or one output."""

_SLOTS_PER_VECTOR = 2  # a load, an accumulation
_INTERLEAVED_SLOTS_PER_VECTOR = 1  # two vectors a load
_SLOTS_PER_INTEGER = 4  # modelled: load, operate, count, branch, one by one

_CUT_DEPTH_PER_WORKER = 8
"""Operands of a worker from which a second compute set is worth its sync. Modelled."""


def reduce(
    outputs: Count,
    depth: Count,
    dtype: str,
    target: Target,
    *,
    interleaved: bool = False,
    operands: int = 1,
) -> Vertex:
    """Returns the cost of a reduction within a tile.

    Args:
        outputs: Results on the tile.
        depth: Operands that go into each of them.
        dtype: Type of the operands.
        target: The machine.
        interleaved: Whether the operands lie in interleaved memory (as received data may), so
            that a worker loads two vectors at once.
        operands: Tensors reduced together: 1, or 2 for a maximum that also keeps its index.

    Raises:
        ValueError: `operands` is not positive.
    """
    if operands < 1:
        raise ValueError(f"`operands` must be positive. Received: {operands!r}.")
    outputs, depth = np.asarray(outputs), np.asarray(depth)
    width, slots = _vector(dtype, interleaved)
    rows = _rows(outputs, width)
    is_cut = _is_cut(rows, depth, target)

    def row_vectors(count: Count) -> Count:
        """Vectors that a row loads to reduce so many operands."""
        return np.where(outputs >= width, count, ceil_div(count, width))

    whole = _pass_cycles(slowest_share(rows, target), row_vectors(depth), slots, target)
    pieces = _pass_cycles(rows, row_vectors(slowest_share(depth, target)), slots, target)
    join_cycles = _pass_cycles(
        slowest_share(rows, target), row_vectors(target.workers), slots, target
    )
    return vertex(
        "reduce",
        dtype,
        outputs * (depth > 1),
        operands * np.where(is_cut, pieces + join_cycles, whole),
        pointers=(2 + 2 * operands) * (1 + is_cut),
        bundles=60 * operands,
    )


def reduce_passes(outputs: Count, depth: Count, dtype: str, target: Target) -> Count:
    """Returns how many compute sets a reduction within a tile takes: 0, 1 or 2."""
    outputs, depth = np.asarray(outputs), np.asarray(depth)
    width, _ = _vector(dtype, interleaved=False)
    return np.where(depth > 1, 1 + _is_cut(_rows(outputs, width), depth, target), 0)


def _rows(outputs: Count, width: int) -> Count:
    """Returns the items one worker reduces at a time: vectors of outputs, or single outputs."""
    return np.where(outputs >= width, ceil_div(outputs, width), outputs)


def _is_cut(rows: Count, depth: Count, target: Target) -> NDArray[np.bool_]:
    """Returns whether workers share a row: too few of them, and deep enough to be worth it."""
    return (as_counts(rows) < target.workers) & (
        as_counts(depth) >= _CUT_DEPTH_PER_WORKER * target.workers
    )


def _vector(dtype: str, interleaved: bool) -> tuple[int, int]:
    """Returns the elements that are reduced at once, and their slots."""
    if FAMILY[dtype] not in ("f32", "f16"):
        return 1, _SLOTS_PER_INTEGER
    slots = _INTERLEAVED_SLOTS_PER_VECTOR if interleaved else _SLOTS_PER_VECTOR
    return vector_elements(dtype), slots


def _pass_cycles(rows: Count, row_vectors: Count, slots: int, target: Target) -> Count:
    """Returns the cycles of a compute set whose slowest worker has so many rows."""
    worker = _WORKER_SLOTS + rows * (_ROW_SLOTS + slots * row_vectors)
    return _VERTEX_CYCLES + barrel_cycles(worker, target)
