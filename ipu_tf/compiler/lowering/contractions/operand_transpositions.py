"""Operands of dots that lie the other way round: transposed before the products.

AMP units read the elements that are summed side by side, in both operands. An operand whose summed
dimension is not the innermost one in memory (`memory_order.py`) is transposed before: by the vertex
where its blocks divide both extents, else element by element. A weight lies as the forward pass
reads it.

poplibs fills up operands first (Convolution.cpp, convolutionPreprocess), so that the summed extent
is whole AMP passes. Of the other one it finds no groups that do not divide the unfilled extent: all
zeros lie on one tile, and the longest piece on any tile sets the size of groups (Pad.hpp,
MappingMethod; VarStructure.cpp, detectInnermostGrouping).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ipu_tf.compiler.hlo import DotDimensions, Instruction
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.memory_order import row_order
from ipu_tf.compiler.lowering.transposition import BLOCK, Transposition, transposition
from ipu_tf.tile_program.layouts.placement import Placement

_VIEWS = frozenset({"bitcast", "convert", "reshape", "transpose"})
"""Opcodes whose result lies in the order of their operand."""

_KEPT = ("rows", "columns")
"""The extents of a dot's operands that are not summed."""

_WEIGHT = 1
"""The operand of a dot that is a weight if it is a parameter; a left one is an activation."""


def transpositions(
    instruction: Instruction,
    operands: Sequence[Placement],
    filled: Mapping[str, int],
    context: LoweringContext,
) -> Mapping[int, Transposition]:
    """Returns the transpositions of a dot's operands, by operand.

    Args:
        instruction: The dot.
        operands: The placements of its operands.
        filled: Its extents, filled up to whole AMP passes. What is filled up moves.
        context: Of its computation.
    """
    if instruction.opcode != "dot":
        return {}
    numbers: DotDimensions = instruction.attributes["dot_dimension_numbers"]
    sides = (
        (numbers.lhs_contracting, numbers.lhs_batch),
        (numbers.rhs_contracting, numbers.rhs_batch),
    )
    by_operand = {}
    for index, (summed, batch) in enumerate(sides):
        array = context.operand(instruction, index).array
        if not summed or operands[index].repeats is not None:
            continue
        rows = math.prod(array.dims[axis] for axis in _last_neighbours(summed))
        columns = _columns(instruction, index, summed, batch, context)
        if min(rows, columns) > 1:
            elements = filled["batch"] * filled[_KEPT[index]] * filled["reduction"]
            by_elements = bool(filled["reduction"] % BLOCK or columns % BLOCK)
            by_operand[index] = transposition(
                operands[index],
                array.dtype,
                context.target,
                by_elements=by_elements,
                filled=elements / array.elements,
                in_place=index == _WEIGHT and _is_input_gradient(instruction, context),
            )
    return by_operand


def is_weight_gradient(instruction: Instruction, context: LoweringContext) -> bool:
    """Returns whether an instruction is a dot of the backward pass that sums over rows of both."""
    if instruction.opcode != "dot" or _is_forward(instruction):
        return False
    numbers: DotDimensions = instruction.attributes["dot_dimension_numbers"]
    lasts = (len(context.operand(instruction, index).array.dims) - 1 for index in range(2))
    summed = (numbers.lhs_contracting, numbers.rhs_contracting)
    return not any(last in axes for last, axes in zip(lasts, summed, strict=True))


def _is_input_gradient(dot: Instruction, context: LoweringContext) -> bool:
    """Returns whether a dot is another one of the backward pass.

    poplibs transposes its right operand where it lies (Convolution.cpp,
    fullyConnectedWeightTranspose).
    """
    return not (_is_forward(dot) or is_weight_gradient(dot, context))


def _is_forward(instruction: Instruction) -> bool:
    return instruction.phase == "forward" or instruction.recomputed


def _last_neighbours(axes: Sequence[int]) -> list[int]:
    """Returns the last of some dimensions and those that lie next to it without a gap."""
    last = max(axes)
    return [axis for axis in axes if set(range(axis, last)) <= set(axes)]


def _columns(
    instruction: Instruction,
    index: int,
    summed: Sequence[int],
    batch: Sequence[int],
    context: LoweringContext,
) -> int:
    """Returns the extent that lies side by side in place of the summed one; 1 if that one does.

    Rows of one of several products, as those of a head that is a part of a wider product, may begin
    within a group of rows: they are copied element by element, too. Those of scores begin groups.
    """
    order = row_order(context.operand(instruction, index), context)
    if order is None:
        return _innermost(instruction, index, max(summed), context)
    beside = order.dimension
    dims = context.operand(instruction, index).array.dims
    if beside in summed:
        is_broken = batch and order.rows != dims[beside] and dims[beside] % BLOCK
        return dims[beside] if is_broken else 1
    free = [axis for axis in range(beside) if axis not in (*summed, *batch)]
    return math.prod(dims[axis] for axis in _last_neighbours([*free, beside]))


def _innermost(instruction: Instruction, index: int, axis: int, context: LoweringContext) -> int:
    """Returns the extent of an operand's innermost dimension in memory.

    It is 1 if the operand lies as the products need it, with the summed dimension `axis` innermost.
    """
    source = context.operand(instruction, index)
    while source.opcode in _VIEWS:
        before = context.operand(source, 0).array
        if source.opcode == "transpose":
            axis = source.attributes["dimensions"][axis]
        elif source.opcode != "convert":
            axis = _same_border(source.array.dims, axis, before.dims)
        source = context.operand(source, 0)
    dims = source.array.dims
    is_innermost = math.prod(dims[axis + 1 :]) == 1
    innermost = next((extent for extent in reversed(dims) if extent > 1), 1)
    if source.opcode != "parameter":
        return 1 if is_innermost else innermost
    is_turned = not _is_forward(instruction) and (
        is_innermost if index == _WEIGHT else not is_innermost
    )
    return innermost if is_turned else 1


def _same_border(dims: Sequence[int], axis: int, before: Sequence[int]) -> int:
    """Returns the dimension before a reshape that ends where a dimension ends behind it."""
    inner = math.prod(dims[axis + 1 :])
    for number in range(len(before) - 1, -1, -1):
        if math.prod(before[number + 1 :]) >= inner and before[number] > 1:
            return number
    return 0
