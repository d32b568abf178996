"""Cycles of plans on the machine, phase by phase, for one plan or thousands at once.

Operands lie spread evenly over the tiles that read them, results over the tiles that compute them.
Every phase costs as much as its busiest tile. Models serial steps, exchange with paired tiles,
changes of layout, multiplication, addition of partials in up to three stages, casts, and a sync for
every phase. Does not model the order of tiles, nor an exchange that overlaps with computing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ipu_tf.machine.contractions import METHODS, add_in_place_cycles, reduce_cycles
from ipu_tf.machine.cost import Cost, Count, as_counts, ceil_div
from ipu_tf.machine.dtypes import HLO_NAMES
from ipu_tf.machine.exchange import paired_phase_cycles, phase_cycles
from ipu_tf.machine.target import Target
from ipu_tf.machine.vertices.convert import convert, fill
from ipu_tf.machine.vertices.movement import copy, dynamic_slice, dynamic_update, transpose
from ipu_tf.planner.candidates import Candidates
from ipu_tf.planner.padding import NONE_ARRANGED, Arranged, padding_cost
from ipu_tf.planner.plan import Plan
from ipu_tf.planner.plan_blocks import (
    ACCUMULATOR_BYTES,
    PlanBlocks,
    plan_blocks,
    streams_other_input,
)
from ipu_tf.planner.shapes import DTYPE_BYTES, OpShape

STAGED_DEPTHS = (16, 125)
"""Number of partials from which one more stage adds them: fewer messages, and less exchange code
(poplibs' ConvReducePlan.cpp)."""

_FOUR_TURNED_CYCLES = 5
"""Cycles in which four elements are copied to another layout (poplibs' ConvModel.cpp)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One or more equal supersteps of a plan.

    Attributes:
        name: Its name.
        cost: Cycles of one repetition.
        repeats: How often it runs.
        received_bytes: Bytes that the busiest tile receives in one repetition.
    """

    name: str
    cost: Cost
    repeats: Count = 1
    received_bytes: Count = 0

    @property
    def total_cycles(self) -> Count:
        """Cycles of all repetitions."""
        return self.repeats * self.cost.total_cycles


def plan_cost(shape: OpShape, plan: Plan | Candidates, target: Target) -> Count:
    """Returns the modelled cycles of a plan, or of every candidate."""
    return sum(phase.total_cycles for phase in plan_phases(shape, plan, target))


def plan_phases(
    shape: OpShape,
    plan: Plan | Candidates,
    target: Target,
    arranged: Arranged = NONE_ARRANGED,
) -> tuple[Phase, ...]:
    """Returns the phases of plans, in the order they run; phases without work cost nothing.

    If windows skip elements of the result, their zeros are multiplied, or filled in at the end,
    whichever is cheaper.

    Args:
        shape: The op.
        plan: A plan, or candidates.
        target: The machine.
        arranged: The operands that reach a plan in copies which are charged elsewhere.
    """
    plans = plan if isinstance(plan, Candidates) else Candidates.of(plan)
    blocks = plan_blocks(shape, plans, target)
    undilated = shape.undilated
    if undilated is None:
        return _phases(shape, plans, blocks, target, arranged)
    undilated_blocks = plan_blocks(undilated, plans, target)
    phases = _phases(shape, plans, blocks, target, arranged)
    result_elements = _result_share(undilated, plans, undilated_blocks)
    dilated = (
        *_phases(undilated, plans, undilated_blocks, target, arranged),
        _dilate(shape, plans, blocks, result_elements, target),
    )
    phases = (*phases, Phase(name="dilate", cost=Cost()))
    is_cheaper = as_counts(_total_cycles(dilated)) < _total_cycles(phases)
    return tuple(
        _either(is_cheaper, one, other) for one, other in zip(dilated, phases, strict=True)
    )


def _total_cycles(phases: tuple[Phase, ...]) -> Count:
    return sum(phase.total_cycles for phase in phases)


def _either(condition: NDArray[np.bool_], one: Phase, other: Phase) -> Phase:
    """Returns one phase where `condition`, and the other one elsewhere."""
    return Phase(
        name=one.name,
        cost=Cost(
            compute_cycles=np.where(condition, one.cost.compute_cycles, other.cost.compute_cycles),
            exchange_cycles=np.where(
                condition, one.cost.exchange_cycles, other.cost.exchange_cycles
            ),
            sync_cycles=np.where(condition, one.cost.sync_cycles, other.cost.sync_cycles),
        ),
        repeats=np.where(condition, one.repeats, other.repeats),
        received_bytes=np.where(condition, one.received_bytes, other.received_bytes),
    )


def _phases(
    shape: OpShape, plans: Candidates, blocks: PlanBlocks, target: Target, arranged: Arranged
) -> tuple[Phase, ...]:
    """Returns the phases of plans that multiply every element of the result."""
    multiply = _multiply(shape, plans, blocks, target)
    reduce = _reduce(shape, plans, blocks, target)
    step: tuple[Phase, ...] = (multiply, reduce)
    if np.any(plans.steps > 1):
        step = (
            _slice(shape, plans, blocks, target),
            multiply,
            reduce,
            _accumulate(shape, plans, blocks, target),
            _update(shape, plans, blocks, target),
        )
    return (_rearrange(shape, plans, target, arranged), *step, _cast(shape, plans, blocks, target))


def _rearrange(shape: OpShape, plans: Candidates, target: Target, arranged: Arranged) -> Phase:
    """The transposition of inputs where they lie, or the turn of operands and result.

    Beside a transposition, the copies of what does not fill AMP passes; a turn copies all of it.
    """
    if streams_other_input(shape, plans.method):
        return Phase(name="rearrange", cost=_turn(shape, plans, target))
    whole = shape.operands(shape.extents)
    dtype = HLO_NAMES[shape.dtype]
    widths = (shape.channels, shape.extents[shape.column_split])
    cycles = sum(
        transpose(ceil_div(ceil_div(elements, plans.tiles), width), width, dtype, target).cycles
        for elements, width, is_rearranged in zip(
            (whole.left, whole.right), widths, shape.rearranged, strict=True
        )
        if is_rearranged
    )
    padding = padding_cost(shape, plans, target, arranged)
    return Phase(name="rearrange", cost=_compute_cost(cycles, target) + padding)


def _turn(shape: OpShape, plans: Candidates, target: Target) -> Cost:
    """The copy of both operands and of the result to layouts for other blocks.

    The tiles that hold the elements copy them one by one and send them. Charged as in poplibs.
    """
    sent_bytes = _turned_elements(shape, plans.tiles) * DTYPE_BYTES[shape.dtype]
    return Cost(
        compute_cycles=turn_cycles(shape, plans.tiles),
        exchange_cycles=phase_cycles(sent_bytes, target),
        sync_cycles=target.sync_cycles,
    )


def _turned_elements(shape: OpShape, tiles: Count) -> Count:
    """Returns a tile's even share of the elements of both operands and of the result."""
    whole = shape.operands(shape.extents)
    return ceil_div(whole.left + whole.right + whole.output, tiles)


def turn_cycles(shape: OpShape, tiles: Count) -> Count:
    """Returns the cycles in which tiles copy operands and result element by element."""
    return ceil_div(_turned_elements(shape, tiles) * _FOUR_TURNED_CYCLES, 4)


def _slice(shape: OpShape, plans: Candidates, blocks: PlanBlocks, target: Target) -> Phase:
    """The copy of a step's operands out of the whole, where they lie."""
    left = ceil_div(blocks.operands.left, plans.tile_parts(shape.left_shared_by))
    right = ceil_div(blocks.operands.right, plans.tile_parts(shape.right_shared_by))
    elements = np.where(blocks.keeps_left, 0, left) + np.where(blocks.keeps_right, 0, right)
    dtype = HLO_NAMES[shape.dtype]
    cycles = dynamic_slice(ceil_div(elements, target.workers), target.workers, dtype, target).cycles
    return Phase(
        name="slice",
        cost=_compute_cost(np.where(plans.steps > 1, cycles, 0), target),
        repeats=plans.steps,
    )


def _multiply(shape: OpShape, plans: Candidates, blocks: PlanBlocks, target: Target) -> Phase:
    """The exchange of operands, repeated in every step, and the multiply-accumulates."""
    left_readers = plans.tile_parts(shape.left_shared_by)
    right_readers = plans.tile_parts(shape.right_shared_by)
    left = _elsewhere(blocks.left_bytes, left_readers)
    right = _elsewhere(blocks.right_bytes, right_readers)
    # Neighbouring tiles stream the same positions past different weights and listen as pairs.
    is_swapped = METHODS[plans.method].swapped
    stream, readers = (right, right_readers) if is_swapped else (left, left_readers)
    stream_bytes = np.where(readers % 2 == 0, stream, 0)
    exchange = paired_phase_cycles(stream_bytes, left + right - stream_bytes, target)
    multiplying = METHODS[plans.method].cycles(blocks.work, target)
    cost = Cost(
        compute_cycles=multiplying + _prepare_cycles(shape, plans, blocks, target),
        exchange_cycles=exchange,
        sync_cycles=target.sync_cycles,
    )
    return Phase(name="multiply", cost=cost, repeats=plans.steps, received_bytes=left + right)


def _reduce(shape: OpShape, plans: Candidates, blocks: PlanBlocks, target: Target) -> Phase:
    """The addition of partials across tiles, in stages of about the same depth."""
    summands = as_counts(plans.tile_parts(shape.reduction_splits))
    partial_bytes = DTYPE_BYTES[blocks.partials]
    elements: Count = as_counts(blocks.operands.output)
    stages = 1 + sum((summands >= depth).astype(np.int64) for depth in STAGED_DEPTHS)
    cost = Cost()
    receive_bytes: Count = 0
    for root in range(1 + len(STAGED_DEPTHS), 0, -1):
        # With the tolerance, the root of an exact power does not round up.
        depth = np.where(stages < root, 1, np.ceil(summands ** (1 / root) - 1e-9)).astype(np.int64)
        stage, stage_bytes = _stage(elements, depth, partial_bytes, target)
        cost, receive_bytes = cost + stage, receive_bytes + stage_bytes
        elements, summands = ceil_div(elements, depth), as_counts(ceil_div(summands, depth))
    return Phase(name="reduce", cost=cost, repeats=plans.steps, received_bytes=receive_bytes)


def _stage(elements: Count, depth: Count, partial_bytes: int, target: Target) -> tuple[Cost, Count]:
    """Returns the cost and the received bytes of adding `depth` partials on as many tiles."""
    share = ceil_div(elements, depth)
    receive_bytes = share * (depth - 1) * partial_bytes
    cost = Cost(
        exchange_cycles=phase_cycles(receive_bytes, target),
        compute_cycles=reduce_cycles(
            elements=share, depth=depth, partial_bytes=partial_bytes, target=target
        ),
        sync_cycles=(depth > 1) * target.sync_cycles,
    )
    return cost, receive_bytes


def _accumulate(shape: OpShape, plans: Candidates, blocks: PlanBlocks, target: Target) -> Phase:
    """The addition of a step's sum to those of the earlier steps."""
    steps = plans.serial_steps(shape.reduction_splits)
    share = _result_share(shape, plans, blocks)
    cycles = add_in_place_cycles(elements=share, element_bytes=ACCUMULATOR_BYTES, target=target)
    return Phase(
        name="accumulate",
        cost=_compute_cost(np.where(steps > 1, cycles, 0), target),
        repeats=plans.steps,
    )


def _update(shape: OpShape, plans: Candidates, blocks: PlanBlocks, target: Target) -> Phase:
    """The copy of a step's result to its place in the whole."""
    output_steps = plans.steps // plans.serial_steps(shape.reduction_splits)
    share = ceil_div(_result_share(shape, plans, blocks), target.workers)
    dtype = HLO_NAMES[shape.dtype]
    cycles = dynamic_update(share, target.workers, dtype, target).cycles
    return Phase(
        name="update",
        cost=_compute_cost(np.where(output_steps > 1, cycles, 0), target),
        repeats=plans.steps,
    )


def _cast(shape: OpShape, plans: Candidates, blocks: PlanBlocks, target: Target) -> Phase:
    """The conversion of the sum to the type of the result, unless a reduction converts it."""
    if blocks.partials == shape.dtype:
        return Phase(name="cast", cost=Cost())
    share = _result_share(shape, plans, blocks)
    cycles = convert(share, HLO_NAMES[blocks.partials], HLO_NAMES[shape.dtype], target).cycles
    depth = plans.tile_parts(shape.reduction_splits)
    in_steps = plans.serial_steps(shape.reduction_splits)
    return Phase(
        name="cast",
        cost=_compute_cost(np.where((depth == 1) | (in_steps > 1), cycles, 0), target),
        repeats=plans.steps // in_steps,
    )


def _dilate(
    shape: OpShape, plans: Candidates, blocks: PlanBlocks, elements: Count, target: Target
) -> Phase:
    """The zeros of a result, and the copy of the computed elements between them."""
    dtype = HLO_NAMES[shape.dtype]
    zeros = fill(_result_share(shape, plans, blocks), dtype, target).cycles
    piece = blocks.block[shape.column_split]
    copy_cycles = copy(elements, dtype, target, piece_elements=piece).cycles
    return Phase(
        name="dilate", cost=_compute_cost(zeros + copy_cycles, target), repeats=plans.steps
    )


def _result_share(shape: OpShape, plans: Candidates, blocks: PlanBlocks) -> Count:
    """Returns the elements of one step's result that a tile holds at the end."""
    return ceil_div(blocks.operands.output, plans.tile_parts(shape.reduction_splits))


def _prepare_cycles(shape: OpShape, plans: Candidates, blocks: PlanBlocks, target: Target) -> Count:
    """Returns the cycles in which a tile expands or pads the left input that it received."""
    method = METHODS[plans.method]
    dtype = HLO_NAMES[shape.dtype]
    if blocks.image is not None:
        elements, piece = blocks.image
        return copy(elements, dtype, target, piece_elements=piece).cycles
    if not method.padded or shape.rearranged[0]:
        return 0
    padding = copy(blocks.operands.left, dtype, target, piece_elements=shape.channels).cycles
    return np.where(blocks.work.in_channels % plans.grain == 0, 0, padding)


def _compute_cost(cycles: Count, target: Target) -> Cost:
    """Returns a superstep that only computes."""
    return Cost(compute_cycles=cycles, sync_cycles=(np.asarray(cycles) > 0) * target.sync_cycles)


def _elsewhere(held_bytes: Count, readers: Count) -> Count:
    """Returns the elements that a tile receives if each reader holds an even share of a block."""
    return held_bytes - ceil_div(held_bytes, readers)
