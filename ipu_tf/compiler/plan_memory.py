"""What a plan takes of a tile's memory while it runs, and for good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ipu_tf.compiler.plan import Plan, block_bytes, largest_block, partial_dtype
from ipu_tf.compiler.shapes import DTYPE_BYTES, OpShape
from ipu_tf.machine.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMemory:
    """Bytes of the fullest tile, beside where operands and result lie between ops.

    Attributes:
        tiles: Tiles that the plan occupies.
        operand_bytes: Blocks of the operands as the tile receives them (exchange buffers).
        partial_bytes: The partial result of the tile.
        rearranged_bytes: Operands in the order in which they are sent.
        reduce_bytes: Partials received from other tiles (exchange buffers).
        vertex_state_bytes: State of the vertices; kept for good.
        code: Codelets, as name -> bytes; a tile holds each once in a program.
    """

    tiles: int
    operand_bytes: int
    partial_bytes: int
    rearranged_bytes: int = 0
    reduce_bytes: int = 0
    vertex_state_bytes: int = 0
    code: Mapping[str, int]


def plan_memory(shape: OpShape, plan: Plan, target: Target) -> PlanMemory:
    """Returns the memory of a plan on its fullest tile."""
    del target
    block = largest_block(shape, plan.splits, plan.grain)
    partial_bytes = (
        int(shape.operands(block).output) * DTYPE_BYTES[partial_dtype(shape.dtype, plan.partials)]
    )
    everything = int(block_bytes(shape, block, plan.partials))
    return PlanMemory(
        tiles=plan.tiles,
        operand_bytes=everything - partial_bytes,
        partial_bytes=partial_bytes,
        code={"ConvPartial": 1024},
    )
