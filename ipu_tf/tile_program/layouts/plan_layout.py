"""The layouts of a plan's operands and result, from the splits that cut their dimensions.

The parts of a plan number its tiles, in one order for its result and both operands. The result
stays where it is computed, in even pieces on the tiles that summed it up. An operand lies on tiles
that read it, in even pieces, too, but not in smaller ones than the minimum below.
"""

from __future__ import annotations

import math
from functools import lru_cache

from ipu_tf.machine.cost import ceil_div
from ipu_tf.planner.arrivals import LEAST_PIECE_BYTES
from ipu_tf.planner.plan import Plan, cut_grain
from ipu_tf.planner.shapes import DTYPE_BYTES, OpShape
from ipu_tf.tile_program.layouts.layout import Axis, BlockLayout, Layout
from ipu_tf.tile_program.layouts.layout_form import blocks

_CACHED_LAYOUTS = 1 << 12

_LEAST_PIECE_BYTES = {**LEAST_PIECE_BYTES, "result": 16}
"""Bytes of an operand below which it is not spread further, and of a result (a vector of its
reduction)."""

PlanDimension = tuple[int, tuple[str, ...]]
"""An extent and the splits of a plan that cut it, the outermost first."""


def plan_blocks_of(shape: OpShape, plan: Plan) -> BlockLayout:
    """Returns the products of a plan as blocks on its tiles, numbered as in its layouts."""
    names = shape.part_order
    axes = [_axis(shape.extents[name], name, shape, plan) for name in names]
    return BlockLayout(axes=tuple(axes), order=tuple(range(len(axes))))


@lru_cache(maxsize=_CACHED_LAYOUTS)
def dimensions_layout(
    dimensions: tuple[PlanDimension, ...], side: str, shape: OpShape, plan: Plan
) -> Layout | None:
    """Returns the layout of an operand or result whose dimensions are cut by splits of a plan.

    None if the plan's splits mean something else than these dimensions.

    Args:
        dimensions: The dimensions, each with the splits that cut it.
        side: "left", "right" or "result".
        shape: The planned shape.
        plan: The plan.
    """
    axes: list[Axis] = []
    names: list[str] = []
    for extent, splits in dimensions:
        axes_of_dimension = _axes(extent, splits, shape, plan)
        if axes_of_dimension is None:
            return None
        axes += axes_of_dimension
        names += splits
    ranks = shape.part_order
    order = sorted(range(len(axes)), key=lambda place: ranks.index(names[place]))
    copies = plan.tiles // math.prod(axis.coordinates for axis in axes)
    block_bytes = math.prod(axis.most_elements for axis in axes) * DTYPE_BYTES[shape.dtype]
    most = ceil_div(block_bytes, _LEAST_PIECE_BYTES[side])
    return blocks(axes, order=order, share=max(1, min(copies, most)))


def _axes(extent: int, splits: tuple[str, ...], shape: OpShape, plan: Plan) -> list[Axis] | None:
    """Returns a dimension cut by a plan; None if the plan's splits mean something else."""
    if len(splits) == 1:
        return [_axis(extent, splits[0], shape, plan)]
    extents = [shape.extents[name] for name in splits]
    if math.prod(extents) != extent:
        return None
    return [_axis(part, name, shape, plan) for part, name in zip(extents, splits, strict=True)]


def _axis(extent: int, name: str, shape: OpShape, plan: Plan) -> Axis:
    grain = cut_grain(name, shape, plan) if extent == shape.extents[name] else 1
    parts = min(plan.splits[name], ceil_div(extent, grain))
    steps = plan.serial.get(name, 1)
    return Axis(extent=extent, parts=parts, grain=grain, steps=steps if parts % steps == 0 else 1)
