"""The order in which the elements of a tensor lie in memory.

AMP units store the features of a result in groups, side by side, of which the last may be smaller.
Those of a product whose left operand waits are its rows (poplibs, getPartialOutputShape), so that
its columns lie apart. Views and element-wise operations keep the order. Modelled: what tensors of
different orders or anything else made lies as its dimensions say.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from ipu_tf.compiler.hlo import DotDimensions, Instruction
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.contractions.contraction_plan import plan_for
from ipu_tf.compiler.lowering.row_order import RowOrder
from ipu_tf.machine import vertices
from ipu_tf.machine.contractions import METHODS
from ipu_tf.planner.plan import cut_grain

LIKE_ACTIVATIONS = frozenset({"gate", "gelu-grad", "gelu-tanh-grad"})
"""Opcodes of gradients that lie like the activation, the first operand, as in popnn."""

_ALONG = frozenset(
    {*vertices.OPCODES, "bitcast", "convert", "copy", "dropout", "fusion", "reshape", "transpose"}
)
"""Opcodes whose result lies in the order of its operands of its size, if they have one order."""

_Place = tuple[int, int]
"""A dimension, and the number of its elements from one element of an operand's to the next."""


def row_order(instruction: Instruction, context: LoweringContext) -> RowOrder | None:
    """Returns the order of a result that lies along the rows of the product before.

    None if no product made it, or one whose columns lie side by side. Remembered in the context.
    """
    worklist = [instruction]
    while worklist:
        last = worklist[-1]
        sources = _sources(last, context)
        unknown = [one for one in sources if one.name not in context.orders]
        if last.name not in context.orders and unknown:
            worklist += unknown
            continue
        worklist.pop()
        if last.name not in context.orders:
            context.orders[last.name] = _order(last, sources, context)
    return context.orders[instruction.name]


def operand_order(
    instruction: Instruction, index: int, context: LoweringContext
) -> RowOrder | None:
    """Returns the order of an operand of its result's size, in dimensions of the result."""
    source = context.operand(instruction, index)
    return _carried(row_order(source, context), source, instruction)


def is_reordered(instruction: Instruction, context: LoweringContext) -> bool:
    """Returns whether a fusion reads or writes its elements in another order."""
    return any(
        inner.opcode == "transpose"
        for name in instruction.computations
        for inner in context.computations[name]
    )


def _sources(instruction: Instruction, context: LoweringContext) -> list[Instruction]:
    """Returns the instructions in whose order a result lies if they agree."""
    if instruction.opcode not in _ALONG or is_reordered(instruction, context):
        return []
    count = 1 if instruction.opcode in LIKE_ACTIVATIONS else len(instruction.operands)
    operands = [context.operand(instruction, index) for index in range(count)]
    size = instruction.array.elements
    return [one for one in operands if one.opcode != "broadcast" and one.array.elements == size]


def _order(
    instruction: Instruction, sources: Sequence[Instruction], context: LoweringContext
) -> RowOrder | None:
    if instruction.opcode != "dot":
        orders = {_carried(context.orders[one.name], one, instruction) for one in sources}
        return orders.pop() if len(orders) == 1 else None
    return _order_of_product(instruction, context)


def _order_of_product(dot: Instruction, context: LoweringContext) -> RowOrder | None:
    """Returns the order of a product: that of its last rows, or as its dimensions say."""
    shape, plan = plan_for(dot, context)
    group = cut_grain("rows", shape, plan) if METHODS[plan.method].swapped else 1
    if group == 1:
        return None
    numbers: DotDimensions = dot.attributes["dot_dimension_numbers"]
    left = len(context.operand(dot, 0).array.dims) - len(numbers.lhs_contracting)
    dims: Sequence[int] = dot.array.dims[:left]
    last = max((axis for axis, extent in enumerate(dims) if extent > 1), default=0)
    rows = math.prod(dims[len(numbers.lhs_batch) :])
    return RowOrder(dimension=last, group=group, rows=rows)


def _carried(
    order: RowOrder | None, source: Instruction, instruction: Instruction
) -> RowOrder | None:
    """Returns the order of a source in dimensions of what lies like it."""
    if order is None:
        return None
    dims = instruction.array.dims
    for axis, extent in enumerate(dims):
        if extent > 1 and _before(axis, instruction, source) == (order.dimension, 1):
            return dataclasses.replace(order, dimension=axis)
    return None


def _before(axis: int, instruction: Instruction, source: Instruction) -> _Place | None:
    """Returns where neighbours along a dimension of a result lie in what it lies like."""
    if instruction.opcode == "transpose":
        return instruction.attributes["dimensions"][axis], 1
    dims, before = instruction.array.dims, source.array.dims
    if dims == before:
        return axis, 1
    step = math.prod(dims[axis + 1 :])
    for number in range(len(before) - 1, -1, -1):
        if step < before[number]:
            return number, step
        if step % before[number]:
            return None
        step //= before[number]
    return None
