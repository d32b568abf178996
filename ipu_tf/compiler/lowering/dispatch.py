"""Dispatches instructions to the rule of their opcode, from one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ipu_tf.compiler.hlo import Instruction, NotAnArray
from ipu_tf.compiler.lowering import flow
from ipu_tf.compiler.lowering.communication import collectives, host, replica_shares
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.contractions import contraction, linalg
from ipu_tf.compiler.lowering.elements import elementwise, normalization, random, reduce, window
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.lowering_error import LoweringError
from ipu_tf.compiler.lowering.mapping import arrays
from ipu_tf.compiler.lowering.rearrangement import indexing, movement, sorting, views
from ipu_tf.compiler.lowering.rules import Rule
from ipu_tf.planner.plan import PlanDoesNotFit
from ipu_tf.tile_program.layouts.placement import Placement

_KINDS = (
    collectives,
    contraction,
    elementwise,
    flow,
    host,
    indexing,
    linalg,
    movement,
    normalization,
    random,
    reduce,
    replica_shares,
    sorting,
    views,
    window,
)

RULES: Mapping[str, Rule] = {opcode: rule for kind in _KINDS for opcode, rule in kind.RULES.items()}
"""The rule of every opcode that has a cost.

Calls, maps and parameters have none: the caller of `lower` walks into computations.
"""

_TOO_WIDE = frozenset({"f64", "c64", "c128"})
_FLOAT8 = frozenset({"f8e4m3", "f8e5m2"})


def lower(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers an instruction to supersteps, memory and placements on tiles.

    Args:
        instruction: The instruction.
        operands: Placements of its operands: one for every array of every operand's type,
            tuples flattened.
        context: The chip, options, plans, and the module around it.

    Raises:
        PlanDoesNotFit: It is a contraction that does not fit the memory of a tile.
        LoweringError: It has no cost.
    """
    rule = RULES.get(instruction.opcode)
    if rule is None:
        raise LoweringError(instruction, "no rule knows its opcode.")
    for array in arrays(instruction.type):
        if array.dtype in _TOO_WIDE:
            raise LoweringError(
                instruction,
                f"its result is {array.dtype}, an IPU has no such type; cast to 32 bits or less.",
            )
    if not context.target.macs_per_cycle_f8:
        _check_no_float8(instruction, context)
    try:
        return rule(instruction, operands, context)
    except NotAnArray as error:
        raise LoweringError(instruction, f"it takes no tuples. {error}") from None


def _check_no_float8(instruction: Instruction, context: LoweringContext) -> None:
    """Rejects instructions that make float8 values, also within a fusion."""
    instructions = [instruction]
    if instruction.opcode == "fusion":
        instructions += context.computations[instruction.computations[0]]
    for inner in instructions:
        for array in arrays(inner.type):
            if array.dtype in _FLOAT8:
                raise LoweringError(
                    inner.replace(layer=inner.layer or instruction.layer),
                    f"it makes {array.dtype}, which the {context.target.chip} does not have; use "
                    "float16, or the c600.",
                )


def preferred_placement(
    instruction: Instruction, operand_index: int, context: LoweringContext
) -> Placement | None:
    """Returns the placement that an instruction prefers for an operand; None for no preference.

    An instruction without a cost, or that does not fit, has none: `lower` raises its error.
    """
    try:
        if instruction.opcode in contraction.RULES:
            return contraction.preferred_operand(instruction, operand_index, context)
        if instruction.opcode in indexing.RULES:
            return indexing.preferred_table(instruction, operand_index, context)
    except (PlanDoesNotFit, LoweringError, NotAnArray):
        return None
    return None
