"""Data movement: copies, padding, concatenation, slices at positions known only at run time.

Models tensors that are sliced at run time with each slice spread over all of their tiles, as the
machine allocates them; a slice then exchanges only its index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ipu_tf.compiler.hlo import Instruction
from ipu_tf.compiler.lowering import vertex_costs
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.mapping import element_bytes, spread
from ipu_tf.compiler.lowering.rules import Rule
from ipu_tf.compiler.lowering.stages import lower_stages
from ipu_tf.machine.cost import ceil_div
from ipu_tf.tile_program.layouts.layout import LINEAR, view
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.steps import ComputeStage
from ipu_tf.tile_program.traffic import NOTHING, Traffic, move, to_all


def copy(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a copy: every tile copies its piece; a view with repeated elements is filled in."""
    result = operands[0].stored
    dtype = instruction.array.dtype
    vertex = vertex_costs.copy(result.tile_elements, dtype, context.target)
    stage = ComputeStage(
        name="copy", where=result, traffic=move(operands[0], result), vertex=vertex, into_place=True
    )
    return lower_stages((stage,), (result,), context.target)


def concatenate(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a concatenation: all operands are exchanged into one new array."""
    array = instruction.array
    result = spread(array, context)
    traffic = _into(result, operands)
    vertex = None
    if traffic == NOTHING:
        vertex = vertex_costs.copy(result.tile_elements, array.dtype, context.target)
    stage = ComputeStage(
        name="concatenate", where=result, traffic=traffic, vertex=vertex, into_place=True
    )
    return lower_stages((stage,), (result,), context.target)


def pad(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers padding: the new array is filled with the value, then the operand moves in."""
    array = instruction.array
    result = spread(array, context)
    padding = max(0, array.elements - operands[0].elements)
    share = ceil_div(padding, result.tiles)
    stages = (
        ComputeStage(
            name="fill",
            where=result,
            traffic=move(_repeated(operands[1], result), result),
            vertex=vertex_costs.fill(share, array.dtype, context.target),
        ),
        ComputeStage(
            name="pad", where=result, traffic=_into(result, operands[:1]), into_place=True
        ),
    )
    return lower_stages(stages, (result,), context.target)


def iota(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers ascending numbers: every tile writes its own."""
    array = instruction.array
    result = spread(array, context)
    vertex = vertex_costs.iota(result.tile_elements, array.dtype, context.target)
    stage = ComputeStage(name="iota", where=result, vertex=vertex)
    return lower_stages((stage,), (result,), context.target)


def dynamic_slice(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a slice at a position known only at run time; a slice of everything is a view."""
    if instruction.array.elements == operands[0].elements:
        return LoweredInstruction(results=(operands[0],), view_of=0)
    result = _slice_placement(operands[0], instruction, context)
    share, workers = result.tile_elements, context.target.workers
    stage = ComputeStage(
        name="dynamic slice",
        where=result,
        traffic=_indices(operands[1:], result),
        vertex=vertex_costs.dynamic_slice(
            ceil_div(share, workers), workers, instruction.array.dtype, context.target
        ),
    )
    return lower_stages((stage,), (result,), context.target)


def dynamic_update_slice(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers the update of a slice at a position known only at run time, in place if possible.

    An update of everything is the update itself.
    """
    array, update = instruction.array, context.operand(instruction, 1).array
    if update.elements == array.elements:
        return LoweredInstruction(results=(operands[1],), view_of=1)
    workers = context.target.workers
    result = operands[0].stored
    stages = []
    if operands[0].repeats is not None:
        fill = vertex_costs.fill(result.tile_elements, array.dtype, context.target)
        traffic = move(operands[0], result)
        stages.append(ComputeStage(name="fill", where=result, traffic=traffic, vertex=fill))
    share = _sliced(result, update.elements, element_bytes(update.dtype))
    stages.append(
        ComputeStage(
            name="dynamic update",
            where=share,
            traffic=move(operands[1], share) + _indices(operands[2:], share),
            vertex=vertex_costs.dynamic_update(
                ceil_div(share.tile_elements, workers), workers, array.dtype, context.target
            ),
        )
    )
    return lower_stages(stages, (result,), context.target, in_place=0)


def _into(result: Placement, operands: Sequence[Placement]) -> Traffic:
    """Returns the traffic of operands that fill a result piece by piece.

    No tile receives more than its own piece.
    """
    if result.tiles == 1 and all(
        (operand.repeats or operand).tiles == 1
        and (operand.repeats or operand).first_tile == result.first_tile
        for operand in operands
    ):
        return NOTHING
    total = sum(operand.bytes for operand in operands)
    sent_bytes = max(
        ((operand.repeats or operand).footprint.tile_bytes for operand in operands), default=0
    )
    received_bytes = min(total, result.tile_elements * result.element_bytes)
    pieces = sum((operand.repeats or operand).tiles for operand in operands)
    return Traffic(
        received_bytes=received_bytes,
        sent_bytes=sent_bytes,
        total_bytes=total,
        received=min(result.tile_elements, ceil_div(pieces, result.tiles) + 1),
        sent=ceil_div(result.tiles, max(1, pieces)),
    )


def _repeated(scalar: Placement, result: Placement) -> Placement:
    """Returns a scalar as a view of a result's shape."""
    return Placement(
        elements=result.elements,
        element_bytes=scalar.element_bytes,
        first_tile=result.first_tile,
        tiles=result.tiles,
        repeats=scalar.repeats or scalar,
        pattern=((result.elements, False),),
    )


def _slice_placement(
    operand: Placement, instruction: Instruction, context: LoweringContext
) -> Placement:
    array = instruction.array
    if operand.repeats is not None:
        return spread(array, context)
    return _sliced(operand, array.elements, element_bytes(array.dtype))


def _sliced(operand: Placement, elements: int, size: int) -> Placement:
    """Returns the placement of a slice of a tensor: spread over all of its tiles."""
    layout = operand.layout
    if layout != LINEAR and elements != operand.elements:
        layout = view(layout, f"{elements} of {operand.elements}")
    return Placement(
        elements=elements,
        element_bytes=size,
        first_tile=operand.first_tile,
        tiles=max(1, min(operand.tiles, elements)),
        layout=layout,
    )


def _indices(indices: Sequence[Placement], where: Placement) -> Traffic:
    """Returns the traffic of the indices of a slice, which all its tiles need."""
    return sum((to_all(index, where.tiles) for index in indices), NOTHING)


RULES: Mapping[str, Rule] = {
    "concatenate": concatenate,
    "copy": copy,
    "dynamic-slice": dynamic_slice,
    "dynamic-update-slice": dynamic_update_slice,
    "iota": iota,
    "pad": pad,
}
