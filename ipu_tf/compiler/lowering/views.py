"""Views: what only renames elements costs nothing, whoever reads it fetches them from there."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ipu_tf.compiler.hlo import Array, Instruction, TupleType
from ipu_tf.compiler.lowering.elementwise import broadcast_view
from ipu_tf.compiler.lowering.errors import UnsupportedOpcode
from ipu_tf.compiler.lowering.lowered import Lowered, LoweringContext
from ipu_tf.compiler.lowering.mapping import (
    arrays,
    element_bytes,
    product,
    spread,
    spread_tiles,
    transposed_layout,
)
from ipu_tf.compiler.lowering.rules import Rule, array_of, operand_array
from ipu_tf.compiler.placement import Placement
from ipu_tf.machine.cost import ceil_div


def view(placement: Placement, *, operand: int = 0) -> Lowered:
    """Returns an instruction that costs nothing: its result is an operand's memory."""
    return Lowered(results=(placement,), view_of=operand)


def same_order(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> Lowered:
    """Lowers what keeps the row-major order of elements: reshape, bitcast."""
    result, operand = array_of(instruction), operands[0]
    size = element_bytes(result.dtype)
    if (result.elements, size) == (operand.elements, operand.element_bytes):
        return view(operand)
    tiles = max(1, min(operand.tiles, result.elements))
    return view(
        Placement(
            elements=result.elements,
            element_bytes=size,
            first_tile=operand.first_tile,
            tiles=tiles,
            layout=operand.layout,
        )
    )


def transpose(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> Lowered:
    """Lowers a transpose: a view in another order."""
    dims = operand_array(instruction, 0, context).dims
    permutation = instruction.attributes["dimensions"]
    layout = transposed_layout(operands[0].layout, dims, permutation)
    return view(dataclasses.replace(operands[0], layout=layout))


def reverse(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> Lowered:
    """Lowers a reversal: a view in another order; twice the same gives the first order again."""
    dims = array_of(instruction).dims
    turned = [axis for axis in instruction.attributes["dimensions"] if dims[axis] > 1]
    if not turned:
        return view(operands[0])
    tag = f"|reversed {turned} of {'x'.join(map(str, dims))}"
    layout = operands[0].layout
    layout = layout.removesuffix(tag) if layout.endswith(tag) else layout + tag
    return view(dataclasses.replace(operands[0], layout=layout))


def broadcast(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> Lowered:
    """Lowers a broadcast: a view in which elements repeat."""
    result = array_of(instruction)
    if result.elements == operands[0].elements:
        return view(operands[0])
    size = element_bytes(result.dtype)
    tiles = spread_tiles(result.elements, size, context.target.tiles)
    first = context.first_tile(tiles, ceil_div(result.elements, tiles) * size)
    stored = Placement(elements=result.elements, element_bytes=size, first_tile=first, tiles=tiles)
    return view(broadcast_view(instruction, operands[0], stored))


def slice_(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> Lowered:
    """Lowers a slice: a view of some of the elements, on the tiles that have them.

    Rows that follow one another in a row-major operand lie on neighbouring tiles; any other choice
    of elements is spread over all tiles of the operand.
    """
    result, operand = array_of(instruction), operands[0]
    dims = operand_array(instruction, 0, context).dims
    taken = instruction.attributes["slice_dimensions"]
    if result.elements == operand.elements:
        return view(operand)
    if operand.repeats is not None:
        tiles = max(1, min(operand.tiles, result.elements))
        return view(dataclasses.replace(operand, elements=result.elements, tiles=tiles))
    outer = next(
        axis for axis, d in enumerate(taken) if (d.start, d.limit, d.stride) != (0, dims[axis], 1)
    )
    is_run = (
        operand.layout == "linear"
        and taken[outer].stride == 1
        and product(dims[:outer]) == 1
        and all(
            (d.start, d.limit, d.stride) == (0, dims[axis], 1)
            for axis, d in enumerate(taken)
            if axis > outer
        )
    )
    if is_run:
        begin = taken[outer].start * product(dims[outer + 1 :])
        first_piece = begin // max(1, operand.tile_elements)
        first, layout = operand.first_tile + first_piece, "linear"
        tiles = max(1, ceil_div(result.elements, max(1, operand.tile_elements)))
    else:
        first, tiles = operand.first_tile, max(1, min(operand.tiles, result.elements))
        ranges = ",".join(f"{d.start}:{d.limit}:{d.stride}" for d in taken)
        layout = f"{operand.layout}|slice {ranges} of {'x'.join(map(str, dims))}"
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
) -> Lowered:
    """Lowers the declaration of a size: a view.

    What has a size of its own at run time, such as the distinct rows of a sparse gradient, keeps
    the memory of its bound, and what reads it is charged for the bound.
    """
    return view(operands[0])


def passed_on(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> Lowered:
    """Lowers what hands on its operands as they are."""
    count = sum(1 for _ in arrays(instruction.type))
    return Lowered(results=tuple(operands[:count]), view_of=0 if count == 1 else None)


def get_tuple_element(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> Lowered:
    """Lowers the choice of one part of a tuple."""
    type_ = context.operand(instruction, 0).type
    if not isinstance(type_, TupleType):
        raise UnsupportedOpcode(instruction, f"its operand has to be a tuple, it is {type_}.")
    index = instruction.attributes["tuple_index"]
    first = sum(1 for part in type_.parts[:index] for _ in arrays(part))
    count = sum(1 for _ in arrays(type_.parts[index]))
    return Lowered(results=tuple(operands[first : first + count]), view_of=0)


def placed(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> Lowered:
    """Lowers what is there when the program starts: constants, numbers of the device, tokens."""
    return Lowered(results=tuple(spread(array, context) for array in arrays(instruction.type)))


def bitcast_convert(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> Lowered:
    """Lowers a reading of the same bits as another type."""
    source: Array = operand_array(instruction, 0, context)
    if source.bytes != array_of(instruction).bytes:
        raise UnsupportedOpcode(instruction, "it does not keep the number of bits.")
    return same_order(instruction, operands, context)


RULES: Mapping[str, Rule] = {
    "after-all": placed,
    "add-dependency": passed_on,
    "bitcast": same_order,
    "bitcast-convert": bitcast_convert,
    "broadcast": broadcast,
    "constant": placed,
    "get-dimension-size": placed,
    "get-tuple-element": get_tuple_element,
    "opt-barrier": passed_on,
    "partition-id": placed,
    "replica-id": placed,
    "reshape": same_order,
    "reverse": reverse,
    "set-dimension-size": set_dimension_size,
    "slice": slice_,
    "transpose": transpose,
    "tuple": passed_on,
}
