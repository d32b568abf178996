"""Vertices that combine all elements so far: cumulative sums and their like.

Modelled: every worker scans a piece of each row (a load, an operation, a store), then adds the sum
of the pieces before it.
"""

from __future__ import annotations

import numpy as np

from ipu_tf.machine.cost import Count
from ipu_tf.machine.target import Target
from ipu_tf.machine.vertices.vertex import Vertex, dtype_bytes, vertex
from ipu_tf.machine.workers import barrel_cycles, slowest_share

_START_SLOTS = 24
_SCAN_SLOTS = 3
_ADD_SLOTS = 2


def scan(rows: Count, row_elements: Count, dtype: str, target: Target) -> Vertex:
    """Returns the cost of scanning rows on a tile.

    Args:
        rows: Rows on the tile.
        row_elements: Elements of a row, all on the tile.
        dtype: Type of the elements.
        target: The machine.
    """
    dtype_bytes(dtype)
    rows, row_elements = np.asarray(rows), np.asarray(row_elements)
    whole = slowest_share(rows, target) * row_elements * _SCAN_SLOTS
    pieces = rows * slowest_share(row_elements, target) * (_SCAN_SLOTS + _ADD_SLOTS)
    worker = _START_SLOTS + np.minimum(whole, pieces)
    return vertex(
        "scan", dtype, rows * row_elements, barrel_cycles(worker, target), pointers=5, bundles=40
    )
