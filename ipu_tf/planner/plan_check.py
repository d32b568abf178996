"""Checks whether a plan can run on a machine."""

from __future__ import annotations

from ipu_tf.machine.target import Target
from ipu_tf.planner.candidates import Candidates
from ipu_tf.planner.methods import methods_for
from ipu_tf.planner.plan import Plan, PlanDoesNotFit, check_parts, written
from ipu_tf.planner.plan_blocks import scratch_bytes
from ipu_tf.planner.shapes import OpShape


def check(
    plan: Plan, shape: OpShape, target: Target, available_memory_proportion: float = 0.6
) -> None:
    """Checks that a plan can run.

    Args:
        plan: The plan.
        shape: The op that it is for.
        target: The machine.
        available_memory_proportion: Share of a tile's memory that the op may take, in (0, 1].

    Raises:
        PlanDoesNotFit: The plan needs more bytes of a tile than that share.
        ValueError: The plan is for another kind of op, splits an extent into more parts than it
            has, needs more tiles than the target has, names a method that cannot compute the op,
            or the proportion is out of range.
    """
    check_proportion(available_memory_proportion)
    check_parts(plan, shape)
    possible = methods_for(shape)
    if plan.method not in possible:
        raise ValueError(
            f"{shape.op}: {plan.method!r} cannot compute {shape!r}. Use one of "
            f"{', '.join(possible)}. Received: {written(plan)}."
        )
    if plan.tiles > target.tiles:
        raise ValueError(
            f"{shape.op}: the plan needs {plan.tiles} tiles, the {target.chip} target has "
            f"{target.tiles}. Use fewer parts. Received: {written(plan)}."
        )
    _check_memory(plan, shape, target, available_memory_proportion)


def check_proportion(proportion: float) -> None:
    """Raises a ValueError unless `proportion` is a share of a tile's memory."""
    if not 0 < proportion <= 1:
        raise ValueError(
            "`available_memory_proportion` must be above 0 and at most 1. "
            f"Received: {proportion!r}."
        )


def _check_memory(plan: Plan, shape: OpShape, target: Target, proportion: float) -> None:
    needed_bytes = int(scratch_bytes(shape, Candidates.of(plan), target))
    limit = int(target.tile_bytes * proportion)
    if needed_bytes > limit:
        raise PlanDoesNotFit(
            f"{shape.op}: the plan needs {needed_bytes} bytes of its fullest tile, "
            f"{limit} are available ({proportion} of {target.tile_bytes} on {target.chip}). Split "
            "more, or raise availableMemoryProportion in the poplar_options of matmuls or "
            f"convolutions. Received: {written(plan)}."
        )
