"""Which worker runs which vertex of a tile: the next one goes to the worker that is free first."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from ipu_tf.machine.target import Target
from ipu_tf.machine.workers import barrel_cycles
from ipu_tf.poplar.model.graph import WORKER

_FEW_TILES = 8
"""So many tiles are served one after the other, more of them side by side."""


def tile_cycles(
    tile: NDArray[np.int64],
    kind: NDArray[np.int64],
    slots: NDArray[np.int64],
    target: Target,
    tiles: int,
) -> NDArray[np.int64]:
    """Returns the compute cycles of every tile, int64[tiles].

    Vertices of all workers, and those of the supervisor, run alone, one after the other.

    Args:
        tile: int64[vertices]: the tile of each vertex, in the order in which they start.
        kind: The threads that run it.
        slots: Issue slots of its worker; cycles of the tile if it runs alone.
        target: The chip.
        tiles: Tiles of all chips.
    """
    shared = kind == WORKER
    cycles = np.bincount(tile[~shared], slots[~shared], tiles).astype(np.int64)
    busiest = _busiest_worker(tile[shared], slots[shared], tiles, target.workers)
    return np.asarray(cycles + barrel_cycles(busiest, target), np.int64)


def _busiest_worker(
    tile: NDArray[np.int64], slots: NDArray[np.int64], tiles: int, workers: int
) -> NDArray[np.int64]:
    """Returns the slots of the worker of every tile that ends last."""
    order = np.argsort(tile, kind="stable")
    tile, slots = tile[order], slots[order]
    counts = np.bincount(tile, minlength=tiles)
    firsts = np.cumsum(counts) - counts
    ends = np.zeros((tiles, workers), np.int64)
    busy = np.flatnonzero(counts)
    start = 0
    while len(busy) > _FEW_TILES:
        rows = ends[busy]
        free = np.argmin(rows, axis=1)
        ends[busy, free] += slots[firsts[busy] + start]
        start += 1
        busy = busy[counts[busy] > start]
    for one in busy.tolist():
        of_tile = ends[one].tolist()
        heapq.heapify(of_tile)
        for slot in slots[firsts[one] + start : firsts[one] + counts[one]].tolist():
            heapq.heappush(of_tile, heapq.heappop(of_tile) + slot)
        ends[one] = of_tile
    return np.asarray(ends.max(axis=1))
