"""The blocks that the busiest tile holds and receives under a plan."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from ipu_tf.machine.contractions import METHODS, ContractionWork, pass_columns
from ipu_tf.machine.cost import Count, ceil_div
from ipu_tf.machine.target import Target
from ipu_tf.planner.candidates import Candidates
from ipu_tf.planner.plan import largest_block, partial_dtype
from ipu_tf.planner.shapes import DTYPE_BYTES, Block, Operands, OpShape

ACCUMULATOR_BYTES = 4
"""Steps of a reduction add up in float32 (docs/numerics.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBlocks:
    """The blocks of one step on the busiest tile, as elements and as bytes.

    Attributes:
        block: Part sizes.
        work: What the vertices of the method compute for it.
        operands: Elements of both inputs and of the partial result.
        image: Elements of the expanded left input, and its channels side by side; `None` if the
            method expands nothing.
        partials: Type of the partial result.
        left_bytes: The left input as the tile receives it.
        right_bytes: The right input as the tile receives it.
        partial_bytes: The partial result, padded as the vertices leave it.
        padded_bytes: Both inputs as the vertices read them: padded, or expanded.
        keeps_left: Whether no serial step changes the left input.
        keeps_right: Whether no serial step changes the right input.
    """

    block: Block
    work: ContractionWork
    operands: Operands
    image: tuple[Count, Count] | None
    partials: str
    left_bytes: Count
    right_bytes: Count
    partial_bytes: Count
    padded_bytes: Count
    keeps_left: Count
    keeps_right: Count


def plan_blocks(shape: OpShape, plans: Candidates, target: Target) -> PlanBlocks:
    """Returns the blocks of plans."""
    partials = partial_dtype(shape.dtype, plans.partials)
    block = largest_block(shape, plans.splits, plans.grain)
    operands = shape.operands(block)
    element_bytes = DTYPE_BYTES[shape.dtype]
    method = METHODS[plans.method]
    padded = _padded(shape, plans, block, target) if method.padded else operands
    left = padded.left
    work = block_work(shape, plans, block)
    image = None
    if method.expanded != "none":
        positions, channels = _expanded_image(shape, plans, block, work)
        left = left + positions * ceil_div(channels, plans.grain) * plans.grain
        piece = channels if method.expanded == "row" else shape.channels
        image = (positions * channels, piece)
    return PlanBlocks(
        block=block,
        work=work,
        operands=operands,
        image=image,
        partials=partials,
        left_bytes=operands.left * element_bytes,
        right_bytes=operands.right * element_bytes,
        partial_bytes=padded.output * DTYPE_BYTES[partials],
        padded_bytes=(left + padded.right) * element_bytes,
        keeps_left=_stays(shape, plans, shape.left_shared_by),
        keeps_right=_stays(shape, plans, shape.right_shared_by),
    )


def scratch_bytes(shape: OpShape, plans: Candidates, target: Target) -> Count:
    """Returns the bytes that plans need on their fullest tile while they run.

    Excludes operands and result: they lie on the tiles before and after.
    """
    return sum(scratch_parts(shape, plans, plan_blocks(shape, plans, target)).values())


def scratch_parts(shape: OpShape, plans: Candidates, blocks: PlanBlocks) -> dict[str, Count]:
    """Returns the terms of `scratch_bytes`; buffers that are never live together count once."""
    depth = plans.tile_parts(shape.reduction_splits)
    receive_bytes = ceil_div(blocks.partial_bytes * (depth - 1), depth)
    sliced = np.where(blocks.keeps_left, 0, blocks.left_bytes) + np.where(
        blocks.keeps_right, 0, blocks.right_bytes
    )
    in_steps = plans.serial_steps(shape.reduction_splits) > 1
    output_steps = plans.steps // plans.serial_steps(shape.reduction_splits)
    outputs = ceil_div(blocks.operands.output * output_steps, depth)
    return {
        "rearranged": _home_bytes(
            shape,
            plans,
            (True, True) if streams_other_input(shape, plans.method) else shape.rearranged,
        ),
        "sliced": ceil_div(sliced, _sharing_tiles(shape, plans)),
        "operands": blocks.padded_bytes,
        "partials": blocks.partial_bytes,
        # Received partials take the place of the operands.
        "reduced": np.maximum(0, receive_bytes - blocks.padded_bytes),
        "accumulator": np.where(in_steps, outputs * ACCUMULATOR_BYTES, 0),
    }


def block_work(shape: OpShape, plans: Candidates, block: Block) -> ContractionWork:
    """Returns the work of a tile for a block, as the method sees it."""
    work = shape.work(block, plans.partials)
    if METHODS[plans.method].expanded == "row":
        columns = ceil_div(work.taps, work.tap_rows)
        return dataclasses.replace(work, in_channels=work.in_channels * columns, taps=work.tap_rows)
    rows = METHODS[plans.method].filter_rows
    if rows > 1:
        columns = ceil_div(work.taps, work.tap_rows)
        passes = ceil_div(work.tap_rows, rows)
        return dataclasses.replace(
            work, in_channels=work.in_channels * rows, taps=passes * columns, tap_rows=passes
        )
    if not METHODS[plans.method].swapped:
        return work
    return dataclasses.replace(
        work,
        positions=work.out_channels,
        row_positions=work.out_channels,
        out_channels=work.positions,
    )


def _expanded_image(
    shape: OpShape, plans: Candidates, block: Block, work: ContractionWork
) -> tuple[Count, Count]:
    """Returns the positions of a block's expanded image, and the channels at each of them.

    If all filter positions become channels, each output position has a copy of its window. If
    those of a row do, a row of the image has the windows of the outputs above it, and neighbouring
    rows of outputs share it.
    """
    if METHODS[plans.method].expanded == "all":
        return work.groups * work.positions, work.taps * work.in_channels
    rows = shape.operands({**block, "field_columns": 1, "kernel_columns": 1, "in_channels": 1}).left
    return rows * block["field_columns"], work.in_channels


def streams_other_input(shape: OpShape, method: str) -> bool:
    """Returns whether a method streams the input that layouts assume to stay in place."""
    return METHODS[method].swapped != shape.left_waits


def _home_bytes(shape: OpShape, plans: Candidates, sides: tuple[bool, bool]) -> Count:
    """Returns the bytes of a tile's even share of the wanted inputs."""
    whole = shape.operands(shape.extents)
    elements = sides[0] * whole.left + sides[1] * whole.right
    return ceil_div(elements * DTYPE_BYTES[shape.dtype], plans.tiles)


def _sharing_tiles(shape: OpShape, plans: Candidates) -> Count:
    """Returns how many tiles, at least, hold a piece of one step's block."""
    left = plans.tile_parts(shape.left_shared_by)
    return np.minimum(left, plans.tile_parts(shape.right_shared_by))


def _stays(shape: OpShape, plans: Candidates, shared_by: tuple[str, ...]) -> Count:
    step_extents = [name for name in plans.serial if name not in shared_by]
    return plans.serial_steps(step_extents) == 1


def _padded(shape: OpShape, plans: Candidates, block: Block, target: Target) -> Operands:
    """Returns the elements of a block with channels filled up to whole AMP passes."""
    method = METHODS[plans.method]
    columns = "rows" if method.swapped else shape.column_split
    sizes = dict(block)
    width = pass_columns(shape.dtype, plans.partials, target)
    units = [(shape.grained_split, plans.grain // method.filter_rows), (columns, width)]
    if method.filter_rows > 1:
        units.append(("kernel_rows", method.filter_rows))
    for name, unit in units:
        sizes[name] = ceil_div(block[name], unit) * unit
    exact = shape.operands(block)
    whole = shape.operands(sizes)
    # Padding widens only channels: no pixels exist beyond the image.
    return Operands(
        left=whole.left if shape.grained_split != "field_columns" else exact.left,
        right=whole.right,
        output=whole.output,
    )
