"""Moves a tensor from one placement to another."""

from __future__ import annotations

from ipu_tf.compiler.lowering import vertex_costs
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.machine.superstep import Superstep
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.steps import ComputeStage, supersteps
from ipu_tf.tile_program.traffic import NOTHING, move


def relayout(
    source: Placement, destination: Placement, context: LoweringContext
) -> tuple[Superstep, ...]:
    """Returns the exchange, or the local copy, that brings elements to another placement."""
    traffic = move(source, destination)
    vertex = None
    if traffic == NOTHING:
        # The cost of a copy depends on its bytes, not on their type.
        vertex = vertex_costs.copy(destination.footprint.tile_bytes, "u8", context.target)
    stage = ComputeStage(
        name="copy", where=destination, traffic=traffic, vertex=vertex, into_place=True
    )
    return supersteps((stage,), context.target)
