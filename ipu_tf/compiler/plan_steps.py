"""The supersteps of a plan: what its cost is made of, in the order in which it runs."""

from __future__ import annotations

from ipu_tf.compiler.plan import Plan, largest_block
from ipu_tf.compiler.plan_cost import gather_cost, multiply_cost, reduction_cost
from ipu_tf.compiler.shapes import OpShape
from ipu_tf.machine.superstep import Superstep
from ipu_tf.machine.target import Target


def plan_supersteps(shape: OpShape, plan: Plan, target: Target) -> tuple[Superstep, ...]:
    """Returns the supersteps of a plan, in order.

    Args:
        shape: The op.
        plan: How it is split.
        target: The machine.
    """
    block = largest_block(shape, plan.splits, plan.grain)
    operands = shape.operands(block)
    costs = {
        "gather": gather_cost(shape, plan.splits, operands, target),
        "multiply": multiply_cost(shape, block, plan.grain, target),
        "reduce": reduction_cost(shape, plan.splits, operands.output, plan.partials, target),
    }
    return tuple(
        Superstep(
            name=name,
            sync_cycles=int(cost.sync_cycles),
            exchange_cycles=int(cost.exchange_cycles),
            compute_cycles=int(cost.compute_cycles),
            busy_tile_cycles=int(cost.compute_cycles) * plan.tiles,
        )
        for name, cost in costs.items()
        if cost.total_cycles > 0
    )
