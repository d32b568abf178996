"""Supersteps of a whole reduction: on every tile, then across tiles.

Each tile reduces what it holds; where a result is spread over several tiles, one tile gathers
their parts and adds them up, or some do for a share of the results each. Models sums, products,
minima and maxima alike.
"""

from __future__ import annotations

from ipu_tf.machine.cost import ceil_div
from ipu_tf.machine.exchange import gather_cycles, phase_cycles
from ipu_tf.machine.superstep import Superstep
from ipu_tf.machine.target import Target
from ipu_tf.machine.vertices import dtype_bytes, reduce, reduce_passes

LIBRARY_CALL_CYCLES = 934
"""What a call of the library's reduction takes beside its supersteps, on the GC2 with SDK 1.0.49.

Fitted: CIT (arXiv 1912.03413) table 4.16, 1,216 and 19,456 operands on one tile. It is part of
what was measured there; programs that are compiled as a whole do not pay it.
"""


def reduction_supersteps(
    outputs: int,
    depth_on_tile: int,
    tiles: int,
    dtype: str,
    target: Target,
    *,
    reducing_tiles: int = 1,
) -> tuple[Superstep, ...]:
    """Returns the supersteps of a reduction, in order.

    Args:
        outputs: Results that tiles share.
        depth_on_tile: Operands of each result on each tile.
        tiles: Tiles that hold operands of the same results.
        dtype: Type of the operands.
        target: The machine.
        reducing_tiles: Tiles that the last stage deals the results to.
    """
    steps = []
    if depth_on_tile > 1:
        steps.append(_local("reduce_on_tile", outputs, depth_on_tile, tiles, dtype, target))
    if tiles > 1:
        share = ceil_div(outputs, reducing_tiles)
        step = _local(
            "reduce_across_tiles", share, tiles, reducing_tiles, dtype, target, interleaved=True
        )
        sent = share * dtype_bytes(dtype)
        moved = gather_cycles(sent, tiles, target)
        if reducing_tiles > 1:
            moved = phase_cycles(sent * (tiles - 1), target, sent_bytes=sent * reducing_tiles)
        steps.append(
            Superstep(
                name=step.name,
                sync_cycles=step.sync_cycles,
                exchange_cycles=int(moved),
                compute_cycles=step.compute_cycles,
                busy_tile_cycles=step.busy_tile_cycles,
                exchange_bytes=outputs * dtype_bytes(dtype) * tiles,
            )
        )
    return tuple(steps)


def _local(
    name: str,
    outputs: int,
    depth: int,
    tiles: int,
    dtype: str,
    target: Target,
    *,
    interleaved: bool = False,
) -> Superstep:
    cycles = reduce(outputs, depth, dtype, target, interleaved=interleaved).cycles
    syncs = int(reduce_passes(outputs, depth, dtype, target))
    return Superstep(
        name=name,
        sync_cycles=syncs * target.sync_cycles,
        compute_cycles=cycles,
        busy_tile_cycles=cycles * tiles,
    )
