"""A reduction to one value as the measured library does it: on every tile, then on one.

The vertices and the exchange are those that compiled programs are charged for. The structure is
that of the measurements (SDK 1.0.49): one tile gathers all other values. Compiled programs may
choose two stages instead, which are faster from some hundred tiles on.
"""

from __future__ import annotations

from ipu_tf.machine.exchange import gather_cycles
from ipu_tf.machine.sync import on_chip_cycles
from ipu_tf.machine.target import Target
from ipu_tf.machine.vertices import dtype_bytes, reduce, reduce_passes

CALL_CYCLES = 934
"""Cycles of a call of the library's reduction besides its supersteps.

Fitted: CIT (arXiv 1912.03413) table 4.16, 1,216 and 19,456 operands on one tile. Programs that are
compiled as a whole do not pay it.
"""


def library_reduction_cycles(depth_on_tile: int, tiles: int, dtype: str, target: Target) -> int:
    """Returns the cycles of a call.

    Args:
        depth_on_tile: Operands on each tile.
        tiles: Tiles that hold operands.
        dtype: Type of the operands, HLO's name.
        target: The machine.
    """
    cycles = CALL_CYCLES + _on_tile(depth_on_tile, dtype, target, interleaved=False)
    if tiles > 1:
        cycles += int(gather_cycles(dtype_bytes(dtype), tiles, target))
        cycles += _on_tile(tiles, dtype, target, interleaved=True)
    return cycles


def _on_tile(depth: int, dtype: str, target: Target, *, interleaved: bool) -> int:
    """Returns the cycles of the reduction of `depth` operands to one, syncs included."""
    syncs = int(reduce_passes(1, depth, dtype, target))
    vertex = reduce(1, depth, dtype, target, interleaved=interleaved)
    return syncs * on_chip_cycles(target) + int(vertex.cycles)
