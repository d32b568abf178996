"""Operands of element-wise operations that lie in another order than the result.

poplibs brings such an operand into the order of the result first (popops, ElementWise.cpp): with
its transposing vertex if both lie in groups of whole vectors, else element by element. It finds
groups along single dimensions alone (poputil, VarStructure.cpp, detectDimGroupings): groups of 16
rows that do not divide the 1,576 tokens of eight samples are none. Norms take tensors as matrices,
and bring the gradient into the order of the activations (poplin, Norms.cpp).

Modelled: variables lie as the backward pass writes them, and a chain of sums adds up what lies in
one order first.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from ipu_tf.compiler.hlo import Instruction
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.mapping import element_bytes
from ipu_tf.compiler.lowering.memory_order import is_reordered, operand_order, row_order
from ipu_tf.compiler.lowering.row_order import RowOrder
from ipu_tf.compiler.lowering.transposition import Transposition, transposition
from ipu_tf.machine.vertices.vertex import VECTOR_BYTES
from ipu_tf.tile_program.layouts.placement import Placement


def into_order_of(
    model: int, instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> Mapping[int, Transposition]:
    """Returns the transpositions of operands of an element-wise operation into its order.

    Args:
        model: The operand that the result lies like, in memory as well. The context remembers it.
        instruction: The operation.
        operands: The placements of its operands.
        context: Of its computation.
    """
    if is_reordered(instruction, context):
        return {}
    result = operand_order(instruction, model, context)
    whole = _whole(instruction, operands, context)
    if model not in whole:
        return {}
    context.orders[instruction.name] = result
    by_order: dict[RowOrder | None, int] = {}
    for index in whole:
        by_order.setdefault(operand_order(instruction, index, context), index)
    return {
        index: into_order(instruction, index, operands[index], result, context)
        for order, index in by_order.items()
        if order != result
    }


def into_order(
    instruction: Instruction,
    index: int,
    operand: Placement,
    result: RowOrder | None,
    context: LoweringContext,
) -> Transposition:
    """Returns the transposition of an operand into the order of an element-wise result."""
    dims, dtype = instruction.array.dims, context.operand(instruction, index).array.dtype
    orders = (operand_order(instruction, index, context), result)
    is_grouped = all(_is_grouped(order, dims, dtype) for order in orders)
    return transposition(operand, dtype, context.target, by_elements=not is_grouped)


def of_gradient(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> Mapping[int, Transposition]:
    """Returns the transposition of a norm's gradient, its second tensor, into the order of x."""
    x, gradient = operands[0], operands[1] if len(operands) > 1 else None
    if gradient is None or gradient.repeats is not None or gradient.elements != x.elements:
        return {}
    sources = [context.operand(instruction, index) for index in range(2)]
    orders = [row_order(source, context) for source in sources]
    if orders[0] == orders[1]:
        return {}
    array = sources[1].array
    matrix = (math.prod(array.dims[:-1]), array.dims[-1])
    by_rows = [order and dataclasses.replace(order, dimension=0) for order in orders]
    is_grouped = all(_is_grouped(order, matrix, array.dtype) for order in by_rows)
    made = transposition(gradient, array.dtype, context.target, by_elements=not is_grouped)
    return {1: made}


def _whole(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> list[int]:
    """Returns the operands of the size of the result that are stored in an order of their own."""
    is_forward = instruction.phase == "forward" or instruction.recomputed
    return [
        index
        for index, operand in enumerate(operands)
        if operand.repeats is None
        and operand.elements == instruction.array.elements
        and (is_forward or context.operand(instruction, index).opcode != "parameter")
    ]


def _is_grouped(order: RowOrder | None, dims: Sequence[int], dtype: str) -> bool:
    """Returns whether elements lie in groups of whole vectors along one dimension."""
    extent = dims[order.dimension if order else -1]
    group = order.group if order else extent
    return extent % group == 0 and group * element_bytes(dtype) % VECTOR_BYTES == 0
