"""Dots and convolutions: the plan that the tile op runs, or the planner's.

A plan charges operands that lie evenly on the tiles that read them. Any other operand comes from
elsewhere in full, and the first exchange of the plan carries it, too.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from ipu_tf.compiler.hlo import Instruction
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.contractions.contraction_layout import plan_layout
from ipu_tf.compiler.lowering.contractions.contraction_plan import plan_for
from ipu_tf.compiler.lowering.contractions.operand_transpositions import (
    is_weight_gradient,
    transpositions,
)
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.mapping import on_tiles
from ipu_tf.compiler.lowering.rules import Rule
from ipu_tf.compiler.lowering.transposition import brought
from ipu_tf.machine.superstep import Superstep
from ipu_tf.machine.target import Target
from ipu_tf.planner.arrivals import is_viewed
from ipu_tf.planner.padding import Arranged, filled_extents
from ipu_tf.planner.plan import Plan, largest_block
from ipu_tf.planner.plan_cost import STAGED_DEPTHS
from ipu_tf.planner.plan_memory import PlanMemory, plan_memory
from ipu_tf.planner.plan_steps import plan_supersteps
from ipu_tf.planner.shapes import OpShape
from ipu_tf.tile_program.layouts.footprint import Footprint
from ipu_tf.tile_program.layouts.layout import BlockLayout, Layout
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.messages import common_run, unknown_overlaps
from ipu_tf.tile_program.steps import exchange_cycles, supersteps
from ipu_tf.tile_program.tile_work import PlanWork
from ipu_tf.tile_program.traffic import NOTHING, Traffic, met_by

_FLOPS_PER_PRODUCT = 2
_CACHED_PLANS = 1 << 12
_SIDES = ("left", "right")
_WORD_BYTES = 4


def contraction(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a dot or a convolution.

    Raises:
        PlanDoesNotFit: No plan fits the memory of a tile.
        LoweringError: Tiles do not multiply values of its type.
    """
    shape, plan = plan_for(instruction, context)
    array = instruction.array
    layout = plan_layout(instruction, array, "result", shape, plan)
    result = context.aligned(on_tiles(array, plan.tiles, context, layout=layout))
    traffic, messages = NOTHING, _partial_messages(shape, plan)
    arranged = [False] * len(_SIDES)
    filled = filled_extents(shape, plan, context.target)
    transposed = transpositions(instruction, operands, filled, context)
    is_copied = is_weight_gradient(instruction, context)
    for number, operand in enumerate(operands):
        source_array = context.operand(instruction, number).array
        layout = plan_layout(instruction, source_array, _SIDES[number], shape, plan)
        home = _home(operand, layout, min(plan.tiles, context.target.tiles))
        turned = transposed.get(number)
        operand_traffic = _without_skips(brought(operand, home, turned), number, shape)
        by_elements = turned is not None and turned.by_elements
        is_regrouped = turned is not None and turned.is_regrouped
        may_be_viewed = not (is_copied or is_regrouped) and _is_viewed(number, shape, plan)
        if operand_traffic.rearranged_cycles and may_be_viewed:
            operand_traffic = dataclasses.replace(
                operand_traffic, rearranged_cycles=_viewed_cycles(operand, home, operand_traffic)
            )
        # A copy that moves element by element, or packs pieces, fills up channels as well.
        arranged[number] = by_elements or operand_traffic.rearranged_cycles > 0
        traffic += operand_traffic
        messages += _operand_messages(operand, home, number, shape, plan)
    memory = _memory(shape, plan, context.target)
    transposition_steps = supersteps([one.stage for one in transposed.values()], context.target)
    steps = _steps(shape, plan, context.target, (arranged[0], arranged[1]))
    products_of_plan = _supersteps(steps, shape, plan, result.first_tile, traffic, context.target)
    return LoweredInstruction(
        supersteps=(*transposition_steps, *products_of_plan),
        results=(result,),
        scratch=(
            *_footprints(result.first_tile, memory.tiles, _scratch_bytes(memory)),
            *(one.copy for one in transposed.values()),
        ),
        exchange_buffers=_footprints(result.first_tile, memory.tiles, memory.operand_bytes),
        vertex_state=_footprints(result.first_tile, memory.tiles, memory.vertex_state_bytes),
        code=memory.code,
        exchange_code_bytes=dataclasses.replace(messages, sent_bytes=traffic.sent_bytes).code_bytes,
        flops=_FLOPS_PER_PRODUCT * shape.products,
        plan=plan,
        dtype=shape.dtype,
    )


def preferred_operand(
    instruction: Instruction, operand: int, context: LoweringContext
) -> Placement:
    """Returns the preferred placement of an operand: evenly on the tiles of the plan."""
    shape, plan = plan_for(instruction, context)
    array = context.operand(instruction, operand).array
    layout = plan_layout(instruction, array, _SIDES[operand], shape, plan)
    return on_tiles(array, plan.tiles, context, layout=layout)


@lru_cache(maxsize=_CACHED_PLANS)
def _steps(shape: OpShape, plan: Plan, target: Target, arranged: Arranged) -> tuple[Superstep, ...]:
    return plan_supersteps(shape, plan, target, arranged)


@lru_cache(maxsize=_CACHED_PLANS)
def _memory(shape: OpShape, plan: Plan, target: Target) -> PlanMemory:
    return plan_memory(shape, plan, target)


def _home(operand: Placement, layout: Layout, tiles: int) -> Placement:
    """Returns the placement that is charged for an operand, from its current first tile."""
    return Placement(
        elements=operand.elements,
        element_bytes=operand.element_bytes,
        first_tile=operand.first_tile if operand.layout == layout else 0,
        tiles=layout.tiles
        if isinstance(layout, BlockLayout)
        else max(1, min(tiles, operand.elements)),
        layout=layout,
    )


def _is_viewed(number: int, shape: OpShape, plan: Plan) -> bool:
    """Returns whether tiles fetch an operand of another layout from where it lies."""
    shared_by = shape.right_shared_by if number else shape.left_shared_by
    return bool(is_viewed(shape, _tile_parts(plan, shared_by)))


def _without_skips(traffic: Traffic, number: int, shape: OpShape) -> Traffic:
    """Returns the traffic of an operand without the pixels that strided windows skip.

    Pieces of skipped and of read pixels are the same: messages do not become fewer.
    """
    share = 1.0 if number else shape.left_read_share
    return traffic if share == 1 else traffic.part(share)


def _viewed_cycles(operand: Placement, home: Placement, traffic: Traffic) -> int:
    """Returns the cycles in which tiles put together what they fetched: halves of words alone.

    An exchange leaves whole words where they belong.
    """
    piece_bytes = common_run(operand, home) * operand.element_bytes
    return traffic.rearranged_cycles if piece_bytes % _WORD_BYTES else 0


def _operand_messages(
    operand: Placement, home: Placement, number: int, shape: OpShape, plan: Plan
) -> Traffic:
    """Returns the messages that bring an operand to all tiles that read it, serial steps as one.

    Tiles that read the same block listen together. A window that reaches into the blocks around it
    meets more pieces in proportion to the extra elements, and at least one of each block.
    """
    blocks = home.blocks
    if blocks is None:
        messages = Traffic(
            received=unknown_overlaps(operand.tiles), sent=unknown_overlaps(home.tiles)
        )
    else:
        messages = met_by(operand, dataclasses.replace(blocks, share=1))
    if number:
        return messages
    halo_blocks, ratio = shape.halo(largest_block(shape, plan.splits, plan.grain))
    wider = math.ceil(messages.received * ratio) + halo_blocks - 1
    return dataclasses.replace(messages, received=min(messages.received * halo_blocks, wider))


def _partial_messages(shape: OpShape, plan: Plan) -> Traffic:
    """Returns the messages that add up partials, in stages if there are many."""
    depth = _tile_parts(plan, shape.reduction_splits)
    stages = 1 + sum(depth >= least for least in STAGED_DEPTHS)
    messages = stages * math.ceil(depth ** (1 / stages)) if depth > 1 else 0
    return Traffic(received=messages, sent=messages)


def _tile_parts(plan: Plan, names: Sequence[str]) -> int:
    """Returns the number of tiles that share the named extents."""
    return math.prod(plan.splits[name] // plan.serial.get(name, 1) for name in names)


def _supersteps(
    plan_steps: Sequence[Superstep],
    shape: OpShape,
    plan: Plan,
    first_tile: int,
    traffic: Traffic,
    target: Target,
) -> tuple[Superstep, ...]:
    """Returns the supersteps of a plan from a tile on, with further traffic in the first exchange.

    If the plan exchanges nothing, that traffic is a superstep of its own.
    """
    work = PlanWork(target=target, shape=shape, plan=plan, first_tile=first_tile)
    steps = [dataclasses.replace(step, work=work) for step in plan_steps]
    if traffic == NOTHING:
        return tuple(steps)
    alone = exchange_cycles(traffic, target)
    routed_work = dataclasses.replace(work, routes=traffic.routes)
    for number, step in enumerate(steps):
        if step.exchange_cycles:
            steps[number] = dataclasses.replace(
                step,
                exchange_cycles=step.exchange_cycles + alone - target.exchange_fixed_cycles,
                exchange_bytes=step.exchange_bytes + traffic.total_bytes,
                work=routed_work,
            )
            return tuple(steps)
    first = Superstep(
        name="rearrange",
        sync_cycles=target.sync_cycles,
        exchange_cycles=alone,
        exchange_bytes=traffic.total_bytes,
        work=routed_work,
    )
    return (first, *steps)


def _scratch_bytes(memory: PlanMemory) -> int:
    return memory.scratch_bytes - memory.operand_bytes


def _footprints(first_tile: int, tiles: int, tile_bytes: int) -> tuple[Footprint, ...]:
    if not tile_bytes:
        return ()
    return (Footprint(first_tile=first_tile, tiles=tiles, tile_bytes=tile_bytes),)


RULES: Mapping[str, Rule] = {"convolution": contraction, "dot": contraction}
