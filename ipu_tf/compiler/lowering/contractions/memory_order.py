"""The dimension of a dot's operand whose elements lie side by side in memory.

AMP units store the features of a result in groups, side by side. Those of a product whose left
operand waits are its rows (poplibs, getOutChansPerGroup), so that its columns lie apart; if no
group divides the rows, the columns lie side by side. Views and element-wise operations keep the
order. Modelled: what several tensors or anything else made lies as its dimensions say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ipu_tf.compiler.hlo import DotDimensions, Instruction
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.contractions.contraction_plan import plan_for
from ipu_tf.compiler.lowering.elements import elementwise
from ipu_tf.machine.contractions import METHODS
from ipu_tf.planner.plan import cut_grain

_ALONG = frozenset({*elementwise.RULES, "bitcast", "copy", "dropout", "reshape"})
"""Opcodes whose result lies in the order of the only operand of its size."""

_Place = tuple[int, int]
"""A dimension, and the number of its elements from one element of an operand's to the next."""


def row_dimension(instruction: Instruction, index: int, context: LoweringContext) -> int | None:
    """Returns the dimension of an operand that lies side by side as rows of the product before.

    None if no product made the operand, or one whose columns lie side by side.
    """
    operand = context.operand(instruction, index)
    dims = operand.array.dims
    places: list[_Place | None] = [(axis, 1) for axis in range(len(dims))]
    source: Instruction | None = operand
    while source is not None and source.opcode != "dot":
        before = _source(source, context)
        if before is not None:
            places = [place and _before(place, source, before) for place in places]
        source = before
    if source is None:
        return None
    last = _last_row(source, context)
    if not _are_rows_innermost(source, context):
        return None
    axes = (axis for axis, place in enumerate(places) if place == (last, 1) and dims[axis] > 1)
    return next(axes, None)


def _source(instruction: Instruction, context: LoweringContext) -> Instruction | None:
    """Returns the instruction in whose order a result lies; None if it has an order of its own."""
    if instruction.opcode == "transpose":
        return context.operand(instruction, 0)
    if instruction.opcode not in _ALONG or _transposes(instruction, context):
        return None
    operands = [context.operand(instruction, index) for index in range(len(instruction.operands))]
    size = instruction.array.elements
    whole = [one for one in operands if one.opcode != "broadcast" and one.array.elements == size]
    return whole[0] if len(whole) == 1 else None


def _transposes(instruction: Instruction, context: LoweringContext) -> bool:
    """Returns whether a fusion reads or writes its elements in another order."""
    return any(
        inner.opcode == "transpose"
        for name in instruction.computations
        for inner in context.computations[name]
    )


def _before(place: _Place, instruction: Instruction, source: Instruction) -> _Place | None:
    """Returns where elements of a result lie in the operand that it lies like."""
    axis, step = place
    if instruction.opcode == "transpose":
        return instruction.attributes["dimensions"][axis], step
    dims, before = instruction.array.dims, source.array.dims
    if dims == before:
        return place
    step *= math.prod(dims[axis + 1 :])
    for number in range(len(before) - 1, -1, -1):
        if step < before[number]:
            return number, step
        if step % before[number]:
            return None
        step //= before[number]
    return None


def _are_rows_innermost(dot: Instruction, context: LoweringContext) -> bool:
    shape, plan = plan_for(dot, context)
    return METHODS[plan.method].swapped and cut_grain("rows", shape, plan) > 1


def _last_row(dot: Instruction, context: LoweringContext) -> int:
    """Returns the last dimension of a dot's rows that has several elements."""
    numbers: DotDimensions = dot.attributes["dot_dimension_numbers"]
    left = len(context.operand(dot, 0).array.dims) - len(numbers.lhs_contracting)
    dims: Sequence[int] = dot.array.dims[:left]
    return max((axis for axis, extent in enumerate(dims) if extent > 1), default=0)
