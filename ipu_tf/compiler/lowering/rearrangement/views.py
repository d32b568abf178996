"""Views: an op that only renames elements costs nothing; its readers fetch the elements."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ipu_tf.compiler.hlo import Array, Instruction, TupleType
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.elements.elementwise import broadcast_view
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.lowering_error import LoweringError
from ipu_tf.compiler.lowering.mapping import (
    arrays,
    element_bytes,
    product,
    spread,
    spread_tiles,
)
from ipu_tf.compiler.lowering.rules import Rule
from ipu_tf.machine.cost import ceil_div
from ipu_tf.tile_program.layouts.layout import LINEAR
from ipu_tf.tile_program.layouts.layout import view as layout_view
from ipu_tf.tile_program.layouts.layout_views import keeps_reversed, transposed
from ipu_tf.tile_program.layouts.placement import Placement


def view(placement: Placement, *, operand: int = 0) -> LoweredInstruction:
    """Returns an instruction that costs nothing: its result is an operand's memory."""
    return LoweredInstruction(results=(placement,), view_of=operand)


def same_order(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers ops that keep the row-major order of elements: reshape, bitcast."""
    result, operand = instruction.array, operands[0]
    size = element_bytes(result.dtype)
    if (result.elements, size) == (operand.elements, operand.element_bytes):
        return view(operand)
    tiles = max(1, min(operand.tiles, result.elements))
    layout = operand.layout
    if layout != LINEAR and result.elements != operand.elements:
        layout = layout_view(layout, f"as {result.dtype}")
    return view(
        Placement(
            elements=result.elements,
            element_bytes=size,
            first_tile=operand.first_tile,
            tiles=tiles,
            layout=layout,
        )
    )


def transpose(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a transpose: a view in another order."""
    dims = context.operand(instruction, 0).array.dims
    permutation = instruction.attributes["dimensions"]
    return view(_transposed(operands[0], dims, permutation))


def reverse(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a reversal: a view in another order; a second reversal restores the first order."""
    dims = instruction.array.dims
    axes = [axis for axis in instruction.attributes["dimensions"] if dims[axis] > 1]
    if not axes:
        return view(operands[0])
    blocks_in_place = operands[0].blocks
    if blocks_in_place is not None and keeps_reversed(blocks_in_place, dims, axes):
        return view(operands[0])
    how = f"reversed {axes} of {_extents(dims)}"
    blocks = operands[0].cut
    layout = layout_view(operands[0].layout, how, undone_by=how, cut=blocks)
    return view(dataclasses.replace(operands[0], layout=layout))


def _transposed(operand: Placement, dims: Sequence[int], permutation: Sequence[int]) -> Placement:
    """Returns a transposed view; transposing it back gives the operand.

    Dimensions of one element do not count.
    """
    axes = [axis for axis in permutation if dims[axis] != 1]
    order = sorted(axes)
    pattern = operand.pattern
    if tuple(extent for extent, _ in pattern) == tuple(dims):
        pattern = tuple(pattern[axis] for axis in permutation)
    elif axes != order:
        pattern = ()
    if axes == order:
        return dataclasses.replace(operand, pattern=pattern)
    cut = operand.cut
    blocks = transposed(cut, dims, permutation) if cut is not None else None
    if blocks is not None and blocks.share == 1 and operand.blocks is not None:
        return dataclasses.replace(operand, layout=blocks, tiles=blocks.tiles, pattern=pattern)
    ranks = [order.index(axis) for axis in axes]
    back = [ranks.index(axis) for axis in range(len(ranks))]
    layout = layout_view(
        operand.layout,
        f"transposed {_extents([dims[axis] for axis in order])}:{ranks}",
        undone_by=f"transposed {_extents([dims[axis] for axis in axes])}:{back}",
        cut=blocks,
    )
    return dataclasses.replace(operand, layout=layout, pattern=pattern)


def _extents(dims: Sequence[int]) -> str:
    return "x".join(map(str, dims))


def broadcast(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a broadcast: a view in which elements repeat."""
    result = instruction.array
    if result.elements == operands[0].elements:
        return view(operands[0])
    size = element_bytes(result.dtype)
    tiles = spread_tiles(result.elements, size, context.target.tiles)
    first = context.first_tile(tiles)
    placement = Placement(
        elements=result.elements, element_bytes=size, first_tile=first, tiles=tiles
    )
    return view(broadcast_view(instruction, operands[0], placement))


def slice_(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a slice: a view of some of the elements, on the tiles that hold them.

    Rows that follow one another in a row-major operand lie on neighbouring tiles; any other choice
    of elements is spread over all tiles of the operand.
    """
    result, operand = instruction.array, operands[0]
    dims = context.operand(instruction, 0).array.dims
    slices = instruction.attributes["slice_dimensions"]
    if result.elements == operand.elements:
        return view(operand)
    if not result.elements:  # On no tile, whichever is named.
        return view(spread(result, context))
    if operand.repeats is not None:
        placement = spread(result, context)
        return view(dataclasses.replace(placement, repeats=operand.repeats))
    outer = next(
        axis for axis, d in enumerate(slices) if (d.start, d.limit, d.stride) != (0, dims[axis], 1)
    )
    is_run = (
        operand.layout == LINEAR
        and slices[outer].stride == 1
        and product(dims[:outer]) == 1
        and all(
            (d.start, d.limit, d.stride) == (0, dims[axis], 1)
            for axis, d in enumerate(slices)
            if axis > outer
        )
    )
    ranges = ",".join(f"{d.start}:{d.limit}:{d.stride}" for d in slices)
    layout = layout_view(operand.layout, f"slice {ranges} of {_extents(dims)}")
    first, tiles = operand.first_tile, max(1, min(operand.tiles, result.elements))
    if is_run:
        begin = slices[outer].start * product(dims[outer + 1 :])
        piece = operand.tile_elements
        first += begin // piece
        tiles = ceil_div(begin % piece + result.elements, piece)
        # Pieces that are cut at the beginning, or at the end, are not even.
        if tiles == 1 or (begin % piece == 0 and ceil_div(result.elements, tiles) == piece):
            layout = LINEAR
    return view(
        Placement(
            elements=result.elements,
            element_bytes=operand.element_bytes,
            first_tile=first % context.target.tiles,
            tiles=tiles,
            layout=layout,
        )
    )


def set_dimension_size(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers the declaration of a size: a view.

    A tensor whose size is known only at run time, such as the distinct rows of a sparse gradient,
    takes the memory of its bound, and its readers are charged for the bound.
    """
    return view(operands[0])


def passed_on(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers ops that pass their operands on unchanged."""
    count = sum(1 for _ in arrays(instruction.type))
    return LoweredInstruction(results=tuple(operands[:count]), view_of=0 if count == 1 else None)


def get_tuple_element(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers the choice of one part of a tuple."""
    type_ = context.operand(instruction, 0).type
    if not isinstance(type_, TupleType):
        raise LoweringError(instruction, f"its operand must be a tuple, not {type_}.")
    index = instruction.attributes["tuple_index"]
    first = sum(1 for part in type_.parts[:index] for _ in arrays(part))
    count = sum(1 for _ in arrays(type_.parts[index]))
    return LoweredInstruction(results=tuple(operands[first : first + count]), view_of=0)


def program_values(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers values that exist when the program starts: constants, device numbers, tokens."""
    return LoweredInstruction(
        results=tuple(spread(array, context) for array in arrays(instruction.type))
    )


def bitcast_convert(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a reinterpretation of the same bits as another type."""
    source: Array = context.operand(instruction, 0).array
    if source.bytes != instruction.array.bytes:
        raise LoweringError(instruction, "it does not keep the number of bits.")
    return same_order(instruction, operands, context)


RULES: Mapping[str, Rule] = {
    "after-all": program_values,
    "add-dependency": passed_on,
    "bitcast": same_order,
    "bitcast-convert": bitcast_convert,
    "broadcast": broadcast,
    "constant": program_values,
    "get-dimension-size": program_values,
    "get-tuple-element": get_tuple_element,
    "opt-barrier": passed_on,
    "partition-id": program_values,
    "replica-id": program_values,
    "reshape": same_order,
    "reverse": reverse,
    "set-dimension-size": set_dimension_size,
    "slice": slice_,
    "transpose": transpose,
    "tuple": passed_on,
}
