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
from ipu_tf.machine import exchange
from ipu_tf.machine.superstep import Superstep
from ipu_tf.machine.target import Target
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.tile_work import BroadcastWork

_PREDICATE_BYTES = 4
_BRANCH_CYCLES = 12
"""Two supervisor instructions, a load and a branch taken, of six cycles each (ISA)."""


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
        supersteps=(_decision("test the condition", tests, context.target),),
        results=tuple(operands),
    )


def conditional(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a conditional without its branches."""
    return LoweredInstruction(supersteps=(_decision("choose a branch", 1, context.target),))


def _decision(name: str, times: int, target: Target) -> Superstep:
    """Returns the cost to give all tiles a value and branch on it, the given number of times."""
    moving = exchange.broadcast_cycles(_PREDICATE_BYTES, target.tiles - 1, target)
    return Superstep(
        name=name,
        sync_cycles=times * target.sync_cycles,
        exchange_cycles=times * int(moving),
        compute_cycles=times * _BRANCH_CYCLES,
        busy_tile_cycles=times * _BRANCH_CYCLES * target.tiles,
        exchange_bytes=times * _PREDICATE_BYTES * (target.tiles - 1),
        work=BroadcastWork(tiles=target.tiles),
    )


RULES: Mapping[str, Rule] = {"conditional": conditional, "while": loop}
