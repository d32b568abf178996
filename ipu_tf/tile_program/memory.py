"""Computes the bytes that every tile needs, step by step.

Models memory as a sum: no fragmentation, no alignment beyond the padding of placements, no split
into interleaved and other regions. Does not model the control program of every tile, nor
memory of the runtime.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from ipu_tf.machine.target import Target
from ipu_tf.tile_program.layouts.footprint import Footprint, add_footprint
from ipu_tf.tile_program.program import Category, Tensor, TileMemory

CATEGORIES: tuple[Category, ...] = get_args(Category)

_WORKER_STACK_BYTES = 512
"""Stack of a worker: PopART sets Poplar's target.workerStackSizeInBytes to 0x200."""

_SUPERVISOR_STACK_BYTES = 96
"""Stack of the supervisor: the rest of the 3,168 bytes of stack a tile in the memory reports
that Graphcore's TensorFlow guide shows (3,852,288 bytes on the 1,216 tiles of a GC2)."""


def stack_bytes(target: Target) -> int:
    """Returns the bytes of all stacks of a tile."""
    return target.workers * _WORKER_STACK_BYTES + _SUPERVISOR_STACK_BYTES


def tile_memory(
    tensors: Sequence[Tensor],
    *,
    steps: int,
    target: Target,
    program_bytes: Mapping[Category, NDArray[np.int64]],
) -> TileMemory:
    """Returns the memory of every tile.

    Args:
        tensors: All of them, temporaries of single steps included.
        steps: Number of steps of the program.
        target: The chip.
        program_bytes: Per category, int64[tiles]: bytes that are not tensors (code, stacks).
    """
    always_live = {
        category: program_bytes[category].astype(np.int64)
        if category in program_bytes
        else np.zeros(target.tiles, np.int64)
        for category in CATEGORIES
    }
    # A program without steps, as of a stage that only passes values on, has them in no step.
    transient = [tensor for tensor in tensors if not tensor.always_live and steps]
    for tensor in tensors:
        if tensor.always_live:
            add_footprint(always_live[tensor.category], tensor.footprint)
    base = np.sum(list(always_live.values()), axis=0)
    live_bytes, max_tile_bytes = _over_time(transient, steps, base)
    peak_step = int(np.argmax(max_tile_bytes)) if steps else 0
    at_peak = {category: np.zeros(target.tiles, np.int64) for category in CATEGORIES}
    for tensor in transient:
        if tensor.first_step <= peak_step <= tensor.last_step:
            add_footprint(at_peak[tensor.category], tensor.footprint)
    return TileMemory(
        limit_bytes=target.tile_bytes,
        always_live=always_live,
        not_always_live_peak=at_peak,
        peak_step=peak_step,
        live_bytes=live_bytes,
        max_tile_bytes=max_tile_bytes,
    )


def _over_time(
    tensors: Iterable[Tensor], steps: int, base: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns per step the bytes on all tiles and on the fullest one, `base` included.

    Counts tensors that spread over the whole chip, most of a large program, once for all tiles.
    """
    tiles = len(base)
    beginning: list[list[Footprint]] = [[] for _ in range(steps)]
    footprints_ending: list[list[Footprint]] = [[] for _ in range(steps)]
    for tensor in tensors:
        beginning[tensor.first_step].append(tensor.footprint)
        footprints_ending[tensor.last_step].append(tensor.footprint)
    live_bytes = np.zeros(steps, np.int64)
    max_tile_bytes = np.zeros(steps, np.int64)
    somewhere = base.copy()
    total, everywhere, fullest = int(base.sum()), 0, int(base.max())
    for step in range(steps):
        has_change = False
        for footprints, sign in (
            (footprints_ending[step - 1] if step else (), -1),
            (beginning[step], 1),
        ):
            for footprint in footprints:
                total += sign * footprint.tiles * footprint.tile_bytes
                if footprint.tiles == tiles:
                    everywhere += sign * footprint.tile_bytes
                else:
                    add_footprint(somewhere, footprint, sign)
                    has_change = True
        if has_change:
            fullest = int(somewhere.max())
        live_bytes[step] = total
        max_tile_bytes[step] = fullest + everywhere
    return live_bytes, max_tile_bytes
