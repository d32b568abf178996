"""Reductions: of all elements, of rows, of columns, of several tensors together (argmax)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ipu_tf.compiler.hlo import Array, Instruction
from ipu_tf.compiler.lowering import vertex_costs
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.elements.reduction_plan import plan_stages
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.lowering_error import LoweringError
from ipu_tf.compiler.lowering.mapping import (
    arrays,
    element_bytes,
    like,
    on_tiles,
    product,
    spread_tiles,
)
from ipu_tf.compiler.lowering.rules import Rule
from ipu_tf.compiler.lowering.stages import lower_stages
from ipu_tf.machine.cost import ceil_div
from ipu_tf.machine.target import Target
from ipu_tf.tile_program.layouts.layout import view
from ipu_tf.tile_program.layouts.layout_views import reduced
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.messages import held_extents
from ipu_tf.tile_program.steps import ComputeStage, supersteps
from ipu_tf.tile_program.traffic import Traffic, move

_BADLY_SPREAD = 2
"""Factor by which an even spread must exceed the operand's tiles to be worth considering."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """The operands of a reduction.

    Attributes:
        operand: Type of the (first) operand.
        dimensions: Dimensions that are reduced.
        operands: Tensors that are reduced together.
        partials: Type of partial results; "" for that of the operands. A sum of float16 may be in
            float32: the accumulators of the reduction vertex are (poplibs' ReduceAdd).
    """

    operand: Array
    dimensions: tuple[int, ...]
    operands: int = 1
    partials: str = ""

    @property
    def result(self) -> Array:
        """Type of the (first) result."""
        dims = self.operand.dims
        kept_extents = [extent for axis, extent in enumerate(dims) if axis not in self.dimensions]
        return Array(self.partials or self.operand.dtype, tuple(kept_extents))


def reduce(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a reduction. The first half of its operands are tensors, the rest initial values."""
    results = tuple(arrays(instruction.type))
    reduction = Reduction(
        operand=context.operand(instruction, 0).array,
        dimensions=tuple(instruction.attributes["dimensions"]),
        operands=len(results),
        partials=results[0].dtype,
    )
    if reduction.operand.elements == 0:
        raise LoweringError(
            instruction, "it reduces a tensor without elements; leave the reduction out."
        )
    stages, placement = reduction_stages(reduction, operands[: len(results)], context)
    is_float = reduction.operand.dtype.startswith(("f", "bf"))
    return lower_stages(
        stages,
        tuple(like(placement, result) for result in results),
        context.target,
        flops=reduction.operand.elements if is_float else 0,
    )


def reduction_stages(
    reduction: Reduction, operands: Sequence[Placement], context: LoweringContext
) -> tuple[tuple[ComputeStage, ...], Placement]:
    """Returns the cheapest stages of a reduction, and the placement of its result."""
    placement = operands[0].stored
    candidates = [_stages(reduction, operands, placement, context)]
    elements, size = placement.elements, placement.element_bytes
    even_tiles = spread_tiles(elements, size, context.target.tiles)
    if even_tiles >= _BADLY_SPREAD * placement.tiles:
        even = on_tiles(reduction.operand, even_tiles, context)
        candidates.append(_stages(reduction, operands, even, context))
    return min(candidates, key=lambda candidate: _cycles(candidate[0], context.target))


def _stages(
    reduction: Reduction,
    operands: Sequence[Placement],
    where: Placement,
    context: LoweringContext,
) -> tuple[tuple[ComputeStage, ...], Placement]:
    """Returns the stages of a reduction whose operands are first brought to one placement."""
    target, dtype = context.target, reduction.operand.dtype
    result = reduction.result
    outputs = max(1, result.elements)
    block = held_extents(where, reduction.operand.dims)
    local_outputs = min(
        outputs,
        product([n for axis, n in enumerate(block) if axis not in reduction.dimensions]),
    )
    local_depth = ceil_div(where.tile_elements, local_outputs)
    stages = [
        ComputeStage(
            name="reduce on tile",
            where=where,
            traffic=sum((move(operand, where) for operand in operands), Traffic()),
            vertex=vertex_costs.reduce(
                local_outputs, local_depth, dtype, target, operands=reduction.operands
            ),
        )
    ]
    partials = ceil_div(where.tiles * local_outputs, outputs)
    if partials <= 1:
        return tuple(stages), _in_place(reduction, where)
    return _with_stages_of_partials(reduction, stages, partials, local_outputs, context)


def _in_place(reduction: Reduction, where: Placement) -> Placement:
    """Returns the placement of results whose operands are all on the result's tile."""
    elements = reduction.result.elements
    layout = where.blocks
    blocks = reduced(layout, reduction.operand.dims, reduction.dimensions) if layout else None
    tiles = blocks.tiles if blocks else max(1, min(where.tiles, elements))
    return Placement(
        elements=elements,
        element_bytes=element_bytes(reduction.result.dtype),
        first_tile=where.first_tile,
        tiles=tiles,
        layout=blocks or view(where.layout, f"reduced over {reduction.dimensions}"),
    )


def _with_stages_of_partials(
    reduction: Reduction,
    stages: list[ComputeStage],
    partials: int,
    sent_outputs: int,
    context: LoweringContext,
) -> tuple[tuple[ComputeStage, ...], Placement]:
    """Returns the stages, followed by those in which tiles join their partial results."""
    target, result = context.target, reduction.result
    dtype = result.dtype
    plan = plan_stages(
        partials=partials,
        outputs=max(1, result.elements),
        dtype=dtype,
        operands=reduction.operands,
        sent_outputs=sent_outputs,
        target=target,
    )
    placement = stages[0].where
    size = element_bytes(dtype) * reduction.operands
    for number, stage in enumerate(plan):
        is_last = number == len(plan) - 1
        partial = result if is_last else Array(dtype, (stage.tiles * stage.outputs,))
        placement = on_tiles(partial, stage.tiles, context)
        elements = stage.outputs * stage.depth
        stages.append(
            ComputeStage(
                name="reduce partials",
                where=placement,
                traffic=Traffic(
                    received_bytes=elements * size,
                    sent_bytes=sent_outputs * size,
                    total_bytes=elements * size * stage.tiles,
                    received=stage.depth,
                    sent=ceil_div(sent_outputs, stage.outputs),
                ),
                vertex=vertex_costs.reduce(
                    stage.outputs,
                    stage.depth,
                    dtype,
                    target,
                    interleaved=True,
                    operands=reduction.operands,
                ),
            )
        )
        sent_outputs = stage.outputs
    return tuple(stages), placement


def _cycles(stages: Sequence[ComputeStage], target: Target) -> int:
    return sum(step.total_cycles for step in supersteps(stages, target))


RULES: Mapping[str, Rule] = {"reduce": reduce}
