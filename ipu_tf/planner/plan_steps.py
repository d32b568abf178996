"""The supersteps that make up the cost of a plan, in the order they run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ipu_tf.machine.superstep import Superstep
from ipu_tf.machine.target import Target
from ipu_tf.planner.padding import NONE_ARRANGED, Arranged
from ipu_tf.planner.partition import largest_part
from ipu_tf.planner.plan import Plan, cut_grain, largest_block
from ipu_tf.planner.plan_cost import Phase, plan_phases
from ipu_tf.planner.shapes import OpShape


def plan_supersteps(
    shape: OpShape, plan: Plan, target: Target, arranged: Arranged = NONE_ARRANGED
) -> tuple[Superstep, ...]:
    """Returns the supersteps of a plan, in order; serial steps follow one another.

    Args:
        shape: The op.
        plan: How it is split.
        target: The machine.
        arranged: The operands that reach the plan in copies which are charged elsewhere.
    """
    shares = _Shares.of(shape, plan)
    phases = [
        phase for phase in plan_phases(shape, plan, target, arranged) if phase.total_cycles > 0
    ]
    before = [
        _superstep(p, plan, shares) for p in phases if p.repeats == 1 and not _after(p, phases)
    ]
    after = [_superstep(p, plan, shares) for p in phases if p.repeats == 1 and _after(p, phases)]
    inner: list[Superstep] = []
    for step in range(max((int(p.repeats) for p in phases), default=1)):
        loops = (p for p in phases if p.repeats > 1 and step < p.repeats)
        inner.extend(_superstep(phase, plan, shares) for phase in loops)
    return (*before, *inner, *after)


def _after(phase: Phase, phases: list[Phase]) -> bool:
    """Whether a phase runs after the repeated ones."""
    loops = [index for index, other in enumerate(phases) if other.repeats > 1]
    return bool(loops) and phases.index(phase) > loops[0]


def _superstep(phase: Phase, plan: Plan, shares: _Shares) -> Superstep:
    compute = int(phase.cost.compute_cycles)
    return Superstep(
        name=phase.name,
        sync_cycles=int(phase.cost.sync_cycles),
        exchange_cycles=int(phase.cost.exchange_cycles),
        compute_cycles=compute,
        busy_tile_cycles=int(compute * plan.tiles * shares.compute),
        exchange_bytes=int(phase.received_bytes * plan.tiles * shares.bytes),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shares:
    """What the mean tile does as a share of what the tile with the largest block does.

    Attributes:
        compute: Of the cycles: tiles compute whole groups of features.
        bytes: Of the bytes: tiles receive those of the features that they are to have.
    """

    compute: float
    bytes: float

    @classmethod
    def of(cls, shape: OpShape, plan: Plan) -> _Shares:
        mean = math.prod(shape.extents.values()) / plan.parts
        parts = (
            largest_part(extent, plan.splits[name], cut_grain(name, shape, plan))
            for name, extent in shape.extents.items()
        )
        block = largest_block(shape, plan.splits, plan.grain).values()
        return cls(compute=mean / int(math.prod(parts)), bytes=mean / int(math.prod(block)))
