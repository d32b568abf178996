"""Shares of values that replicas share out, on their way to and from the whole.

Links carry the collectives themselves; their cost belongs to the deployment. On the tiles a share
is spread evenly, so that all tiles update it, and a whole value has the layout of its readers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ipu_tf.compiler.hlo import Instruction
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.mapping import spread
from ipu_tf.compiler.lowering.rules import Rule
from ipu_tf.compiler.lowering.stages import lower_stages
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.steps import ComputeStage
from ipu_tf.tile_program.traffic import collect, move


def share(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers the choice of a replica's share of a value: it moves evenly to all tiles."""
    result = spread(instruction.array, context)
    traffic = collect(operands[0], received_elements=result.tile_elements, tiles=result.tiles)
    stage = ComputeStage(name="share", where=result, traffic=traffic, into_place=True)
    return lower_stages([stage], (result,), context.target)


def gather(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers the return of a share to its whole value, in whose place the result is.

    If the replicas have gathered all shares, the whole value moves to its layout; otherwise the
    replica's share alone does.
    """
    share, result = operands[0], operands[1].stored
    whole = spread(instruction.array, context)
    if instruction.attributes["gathered"]:
        traffic = move(whole, result)
    else:
        traffic = collect(share, received_elements=share.tile_elements, tiles=share.tiles)
    stage = ComputeStage(name="gather", where=result, traffic=traffic)
    return lower_stages([stage], (result,), context.target, in_place=1)


RULES: Mapping[str, Rule] = {"replica-gather": gather, "replica-share": share}
