"""The supersteps that make up the cost of a plan, in the order they run."""

from __future__ import annotations

import math

from ipu_tf.compiler.planner.plan import Plan, largest_block
from ipu_tf.compiler.planner.plan_cost import Phase, plan_phases
from ipu_tf.compiler.planner.shapes import OpShape
from ipu_tf.machine.superstep import Superstep
from ipu_tf.machine.target import Target


def plan_supersteps(shape: OpShape, plan: Plan, target: Target) -> tuple[Superstep, ...]:
    """Returns the supersteps of a plan, in order; serial steps follow one another.

    Args:
        shape: The op.
        plan: How it is split.
        target: The machine.
    """
    share = _mean_block_share(shape, plan)
    phases = [phase for phase in plan_phases(shape, plan, target) if phase.total_cycles > 0]
    before = [
        _superstep(p, plan, share) for p in phases if p.repeats == 1 and not _after(p, phases)
    ]
    after = [_superstep(p, plan, share) for p in phases if p.repeats == 1 and _after(p, phases)]
    inner: list[Superstep] = []
    for step in range(max((int(p.repeats) for p in phases), default=1)):
        repeated = (p for p in phases if p.repeats > 1 and step < p.repeats)
        inner.extend(_superstep(phase, plan, share) for phase in repeated)
    return (*before, *inner, *after)


def _after(phase: Phase, phases: list[Phase]) -> bool:
    """Whether a phase runs after the repeated ones."""
    repeated = [index for index, other in enumerate(phases) if other.repeats > 1]
    return bool(repeated) and phases.index(phase) > repeated[0]


def _superstep(phase: Phase, plan: Plan, share: float) -> Superstep:
    compute = int(phase.cost.compute_cycles)
    return Superstep(
        name=phase.name,
        sync_cycles=int(phase.cost.sync_cycles),
        exchange_cycles=int(phase.cost.exchange_cycles),
        compute_cycles=compute,
        busy_tile_cycles=int(compute * plan.tiles * share),
        exchange_bytes=int(phase.received_bytes * plan.tiles * share),
    )


def _mean_block_share(shape: OpShape, plan: Plan) -> float:
    """Returns the mean tile's block as a share of the largest block."""
    largest = math.prod(largest_block(shape, plan.splits, plan.grain).values())
    return math.prod(shape.extents.values()) / (plan.parts * largest)
