"""The compiler's own lowering rules, as the stages after lowering ask for them."""

from __future__ import annotations

from ipu_tf.compiler.context import Rules
from ipu_tf.compiler.lowering import cached, lower, preferred_placement
from ipu_tf.compiler.lowering.lowered import LoweringContext
from ipu_tf.compiler.lowering.mapping import spread
from ipu_tf.compiler.lowering.steps import Stage, supersteps
from ipu_tf.compiler.lowering.traffic import NOTHING
from ipu_tf.compiler.lowering.traffic import move as moving
from ipu_tf.compiler.placement import Placement
from ipu_tf.machine.superstep import Superstep


def move(
    source: Placement, destination: Placement, context: LoweringContext
) -> tuple[Superstep, ...]:
    """Returns what brings elements from one placement to another: an exchange or a local copy."""
    traffic = moving(source, destination)
    vertex = None
    if traffic == NOTHING:
        # What a copy costs depends on its bytes, not on their type.
        vertex = cached.copy(destination.footprint.tile_bytes, "u8", context.target)
    stage = Stage(name="copy", where=destination, traffic=traffic, vertex=vertex, into_place=True)
    return supersteps((stage,), context.target)


RULES = Rules(lower=lower, preferred_placement=preferred_placement, spread=spread, move=move)
