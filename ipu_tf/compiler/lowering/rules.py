"""The type of lowering rules, and checks that all kinds of rules share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ipu_tf.compiler.hlo import Instruction
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.tile_program.layouts.placement import Placement

Rule: TypeAlias = Callable[[Instruction, Sequence[Placement], LoweringContext], LoweredInstruction]
"""Instruction, placements of its operands' arrays (tuples flattened), context -> its lowering.

A rule is a pure function of these, except that it asks the context for the emptiest tiles.
"""


def root_opcode(instruction: Instruction, context: LoweringContext) -> str:
    """Returns the opcode of the root of the computation that an instruction calls."""
    computation = context.computations[instruction.computations[0]]
    return computation.by_name()[computation.root].opcode
