"""Dots and convolutions: the plan that the tile op runs, or the planner's.

A plan charges operands that lie evenly on the tiles that read them. What lies otherwise comes from
elsewhere in full, which its first exchange has to carry as well.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from ipu_tf.compiler.hlo import Instruction
from ipu_tf.compiler.lowering.contraction_shape import conv_shape, dot_shape
from ipu_tf.compiler.lowering.errors import UnsupportedOpcode
from ipu_tf.compiler.lowering.lowered import Lowered, LoweringContext
from ipu_tf.compiler.lowering.mapping import on_tiles
from ipu_tf.compiler.lowering.rules import Rule, array_of, operand_array
from ipu_tf.compiler.lowering.steps import exchange_cycles
from ipu_tf.compiler.lowering.traffic import NOTHING, Traffic, move
from ipu_tf.compiler.placement import Footprint, Placement
from ipu_tf.compiler.plan import Plan
from ipu_tf.compiler.plan_memory import PlanMemory, plan_memory
from ipu_tf.compiler.plan_steps import plan_supersteps
from ipu_tf.compiler.planner import plan_conv, plan_matmul
from ipu_tf.compiler.shapes import MatMulShape, OpShape
from ipu_tf.machine import exchange
from ipu_tf.machine.superstep import Superstep
from ipu_tf.machine.target import Target

_FLOPS_PER_PRODUCT = 2
_CACHED_PLANS = 1 << 12
_SIDES = ("left", "right")


def contraction(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> Lowered:
    """Lowers a dot or a convolution.

    Raises:
        PlanDoesNotFit: No plan fits the memory of a tile.
        UnsupportedOpcode: Tiles do not multiply values of its type.
    """
    shape, plan = planned(instruction, context)
    array = array_of(instruction)
    result = on_tiles(array, plan.tiles, context, layout=_layout(shape, plan, "result"))
    traffic = NOTHING
    for side, operand in zip(_SIDES, operands, strict=True):
        traffic += move(operand, _home(operand, shape, plan, side, context.target))
    memory = _memory(shape, plan, context.target)
    return Lowered(
        supersteps=_with_traffic(_steps(shape, plan, context.target), traffic, context.target),
        results=(result,),
        scratch=_footprints(result.first_tile, memory.tiles, _scratch_bytes(memory)),
        exchange_buffers=_footprints(result.first_tile, memory.tiles, memory.operand_bytes),
        vertex_state=_footprints(result.first_tile, memory.tiles, memory.vertex_state_bytes),
        code=memory.code,
        exchange_code_bytes=_exchange_code_bytes(shape, plan, traffic),
        flops=_FLOPS_PER_PRODUCT * products(shape),
        plan=plan,
    )


def planned(instruction: Instruction, context: LoweringContext) -> tuple[OpShape, Plan]:
    """Returns the shape of a contraction and the plan that it runs with.

    It is that of the tile op of the same name where both do the same work; else the planner's.
    """
    shape = _shape(instruction, context)
    executed = context.plans.get(instruction.op_name)
    if executed is not None and products(executed[0]) == products(shape):
        return executed
    options = context.options.matmul
    if isinstance(shape, MatMulShape):
        plan: Plan = plan_matmul(
            shape,
            context.target,
            partials=options.partials,
            available_memory_proportion=options.available_memory_proportion,
        )
        return shape, plan
    options = context.options.conv
    plan = plan_conv(
        shape,
        context.target,
        partials=options.partials,
        available_memory_proportion=options.available_memory_proportion,
    )
    return shape, plan


def preferred_operand(
    instruction: Instruction, operand: int, context: LoweringContext
) -> Placement:
    """Returns where an operand of a contraction should lie: evenly on the tiles of its plan."""
    shape, plan = planned(instruction, context)
    array = operand_array(instruction, operand, context)
    return on_tiles(array, plan.tiles, context, layout=_layout(shape, plan, _SIDES[operand]))


def products(shape: OpShape) -> int:
    """Returns the multiplications of a contraction.

    A strided input gradient multiplies only where a tap meets an element, as often as the forward
    pass; all passes of a convolution count the taps that fall into the padding.
    """
    if isinstance(shape, MatMulShape):
        return shape.batch * shape.m * shape.k * shape.n
    return math.prod(
        (
            shape.batch,
            shape.groups,
            shape.in_channels,
            shape.out_channels,
            shape.kernel_rows,
            shape.kernel_columns,
            shape.out_rows,
            shape.out_columns,
        )
    )


def _shape(instruction: Instruction, context: LoweringContext) -> OpShape:
    left, right = (operand_array(instruction, index, context) for index in (0, 1))
    try:
        if instruction.opcode == "dot":
            return dot_shape(instruction, left, right)
        return conv_shape(instruction, left, right, array_of(instruction))
    except (ValueError, ZeroDivisionError) as error:
        raise UnsupportedOpcode(
            instruction, f"it cannot be planned: {error} Give all dimensions at least one element."
        ) from None


@lru_cache(maxsize=_CACHED_PLANS)
def _steps(shape: OpShape, plan: Plan, target: Target) -> tuple[Superstep, ...]:
    return plan_supersteps(shape, plan, target)


@lru_cache(maxsize=_CACHED_PLANS)
def _memory(shape: OpShape, plan: Plan, target: Target) -> PlanMemory:
    return plan_memory(shape, plan, target)


def _layout(shape: OpShape, plan: Plan, side: str) -> str:
    splits = ",".join(str(parts) for parts in plan.splits.values())
    return f"{shape.op} {side} {splits}"


def _home(operand: Placement, shape: OpShape, plan: Plan, side: str, target: Target) -> Placement:
    """Returns where an operand is charged to lie, at the first tile where it already does."""
    layout = _layout(shape, plan, side)
    tiles = max(1, min(plan.tiles, operand.elements, target.tiles))
    return Placement(
        elements=operand.elements,
        element_bytes=operand.element_bytes,
        first_tile=operand.first_tile if operand.layout == layout else 0,
        tiles=tiles,
        layout=layout,
    )


def _with_traffic(
    steps: tuple[Superstep, ...], traffic: Traffic, target: Target
) -> tuple[Superstep, ...]:
    """Returns the supersteps of a plan whose first exchange brings in some more."""
    if traffic == NOTHING:
        return steps
    alone = exchange_cycles(traffic, target)
    for number, step in enumerate(steps):
        if step.exchange_cycles:
            longer = dataclasses.replace(
                step,
                exchange_cycles=step.exchange_cycles + alone - target.exchange_fixed_cycles,
                exchange_bytes=step.exchange_bytes + traffic.total_bytes,
            )
            return (*steps[:number], longer, *steps[number + 1 :])
    first = Superstep(
        name="rearrange",
        sync_cycles=target.sync_cycles,
        exchange_cycles=alone,
        exchange_bytes=traffic.total_bytes,
    )
    return (first, *steps)


def _scratch_bytes(memory: PlanMemory) -> int:
    return memory.scratch_bytes - memory.operand_bytes


def _footprints(first_tile: int, tiles: int, tile_bytes: int) -> tuple[Footprint, ...]:
    if not tile_bytes:
        return ()
    return (Footprint(first_tile=first_tile, tiles=tiles, tile_bytes=tile_bytes),)


def _exchange_code_bytes(shape: OpShape, plan: Plan, traffic: Traffic) -> int:
    """Returns the exchange code of the busiest tile.

    Modelled: a message for every tile that shares a block of an operand or of the partials, and
    one for every tile that a rearranged operand comes from; serial steps share their code.
    """
    parallel = {name: parts // plan.serial.get(name, 1) for name, parts in plan.splits.items()}
    groups = (shape.left_shared_by, shape.right_shared_by, shape.reduction_splits)
    sharers = sum(math.prod(parallel[name] for name in group) for group in groups)
    return int(exchange.exchange_code_bytes(sharers + traffic.messages))


RULES: Mapping[str, Rule] = {"convolution": contraction, "dot": contraction}
