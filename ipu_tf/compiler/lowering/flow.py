"""The cost of control flow itself: telling all tiles where to continue.

The caller lowers the called computations, instruction by instruction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from ipu_tf.compiler.hlo import Instruction
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.rules import Rule
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.steps import decision


def trips_of(instruction: Instruction) -> int | Fraction | None:
    """Returns how often a loop runs, the mean if that differs; None if it is not known."""
    if "mean_trip_count" in instruction.attributes:
        total, runs = instruction.attributes["mean_trip_count"]
        return Fraction(total, runs) if total % runs else total // runs
    trips: int | None = instruction.attributes.get("trip_count")
    return trips


def loop(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a while loop without its body: it tests the condition once more than it iterates.

    A loop of unknown length counts as one iteration, as its body does.
    """
    trips = trips_of(instruction)
    tests = 1 + (1 if trips is None else math.ceil(trips))
    return LoweredInstruction(
        supersteps=(decision("test the condition", tests, context.target),),
        results=tuple(operands),
    )


def conditional(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a conditional without its branches."""
    return LoweredInstruction(supersteps=(decision("choose a branch", 1, context.target),))


RULES: Mapping[str, Rule] = {"conditional": conditional, "while": loop}
