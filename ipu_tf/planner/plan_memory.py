"""Memory that a plan takes on a tile, while it runs and permanently."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ipu_tf.machine.contractions import METHODS, pass_columns
from ipu_tf.machine.cost import ceil_div
from ipu_tf.machine.target import Target
from ipu_tf.planner.candidates import Candidates
from ipu_tf.planner.plan import Plan
from ipu_tf.planner.plan_blocks import PlanBlocks, plan_blocks, scratch_parts
from ipu_tf.planner.shapes import OpShape

_POINTER_BYTES = 4
_VERTEX_BYTES = 28
"""Sizes, strides and the address of the lists of a vertex. Modelled."""

_WORK_ITEM_BYTES = 6
"""Two offsets and a count of 16 bits each (poplibs, worklists of the AMP vertices)."""

_REDUCE_CODE_BYTES = 400
_STEP_CODE_BYTES = 600
"""Codelets of the addition of partials; of slices, updates and additions in place. Modelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMemory:
    """Bytes of the fullest tile, without operands and result as they lie between ops.

    Attributes:
        tiles: Tiles that the plan occupies.
        operand_bytes: Blocks of the operands as the vertices read them (exchange buffers).
        partial_bytes: The partial result of the tile.
        rearranged_bytes: Operands in another layout, and slices of them, on the sending tiles.
        reduce_bytes: Received partials that do not fit in the place of the operands.
        accumulator_bytes: Sums of the steps so far.
        vertex_state_bytes: State of the vertices; always live.
        code: Codelets, as name -> bytes; a tile holds each once in a program.
    """

    tiles: int
    operand_bytes: int
    partial_bytes: int
    rearranged_bytes: int = 0
    reduce_bytes: int = 0
    accumulator_bytes: int = 0
    vertex_state_bytes: int = 0
    code: Mapping[str, int]

    @property
    def scratch_bytes(self) -> int:
        """Bytes in use only while the plan runs."""
        return (
            self.operand_bytes
            + self.partial_bytes
            + self.rearranged_bytes
            + self.reduce_bytes
            + self.accumulator_bytes
        )


def plan_memory(shape: OpShape, plan: Plan, target: Target) -> PlanMemory:
    """Returns the memory of a plan on its fullest tile."""
    plans = Candidates.of(plan)
    blocks = plan_blocks(shape, plans, target)
    parts = {name: int(size) for name, size in scratch_parts(shape, plans, blocks).items()}
    code = {f"{plan.method}_{shape.dtype}": METHODS[plan.method].code_bytes}
    if plan.parts > plan.steps and plans.tile_parts(shape.reduction_splits) > 1:
        code["reduce_partials"] = _REDUCE_CODE_BYTES
    if plan.steps > 1:
        code["serial_steps"] = _STEP_CODE_BYTES
    return PlanMemory(
        tiles=plan.tiles,
        operand_bytes=parts["operands"],
        partial_bytes=parts["partials"],
        rearranged_bytes=parts["rearranged"] + parts["sliced"],
        reduce_bytes=parts["reduced"],
        accumulator_bytes=parts["accumulator"],
        vertex_state_bytes=_vertex_state_bytes(blocks, shape, plan, target),
        code=code,
    )


def _vertex_state_bytes(blocks: PlanBlocks, shape: OpShape, plan: Plan, target: Target) -> int:
    """Returns the bytes of a vertex: its sizes, pointers to operands, work items of its workers."""
    work = blocks.work
    in_groups = ceil_div(work.in_channels, plan.grain)
    columns = pass_columns(shape.dtype, plan.partials, target)
    out_groups = ceil_div(work.out_channels, columns)
    pointers = work.groups * (in_groups + out_groups + in_groups * out_groups)
    items, _ = work.items_of_slowest_worker(target)
    lists = target.workers * items * work.taps * _WORK_ITEM_BYTES
    return int(_VERTEX_BYTES + pointers * _POINTER_BYTES + lists)
