"""The layouts that a plan wants for its operands and its result.

The parts of a plan number its tiles, in one order for its result and both operands. The result
stays where it is computed, in even pieces on the tiles that summed it up. An operand lies on tiles
that read it, in even pieces, too, but not in smaller ones than the minimum below.

Models operands without their halo: a window that reaches into a neighbour's block fetches the rest.
A plan with a third spatial dimension has a name instead of blocks, and so has a plan of groups that
its instruction writes in another way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from ipu_tf.compiler.hlo import (
    Array,
    ConvolutionDimensions,
    DotDimensions,
    Instruction,
)
from ipu_tf.compiler.layouts.layout import Axis, BlockLayout, Layout
from ipu_tf.compiler.layouts.layout_form import blocks
from ipu_tf.compiler.planner.plan import Plan, cut_grain
from ipu_tf.compiler.planner.shapes import DTYPE_BYTES, ConvShape, MatMulShape, OpShape
from ipu_tf.machine.cost import ceil_div

_CACHED_LAYOUTS = 1 << 12

_LEAST_PIECE_BYTES = {"left": 128, "right": 256, "result": 16}
"""Bytes of an operand below which it is not spread further, so that exchange code stays short
(poplibs 3.4, mapActivationsOrWeights: activations 128, weights 256), and of a result (a vector of
its reduction)."""

_ORDER: Mapping[str, tuple[str, ...]] = {
    "matmul": ("batch", "rows", "columns", "reduction"),
    "conv": (
        "batch", "field_rows", "field_columns", "groups", "out_channels", "in_channels",
        "kernel_rows", "kernel_columns",
    ),
    "filter_gradient": (
        "groups", "out_channels", "in_channels", "kernel_rows", "kernel_columns", "batch",
        "field_rows", "field_columns",
    ),
}  # fmt: skip
"""The parts of plans in the order of tile numbers, the slowest first: parts of the result before
parts that are summed over."""

_FIELD = ("field_rows", "field_columns")
_KERNEL = ("kernel_rows", "kernel_columns")

_CONVOLUTION: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "left": (("batch",), ("groups", "in_channels")),
    "right": (("in_channels",), ("groups", "out_channels")),
    "result": (("batch",), ("groups", "out_channels")),
}
"""Splits of the batch and of the features (a kernel: of its input and output features)."""

_FILTER_GRADIENT: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "left": (("groups", "in_channels"), ("batch",)),
    "right": (("batch",), ("groups", "out_channels")),
    "result": (("in_channels",), ("groups", "out_channels")),
}
"""The same of a filter gradient, which takes channels for images and images for channels."""

_Dimension = tuple[int, tuple[str, ...]]
"""An extent and the splits of a plan that cut it, the outermost first."""


def plan_layout(
    instruction: Instruction, array: Array, side: str, shape: OpShape, plan: Plan
) -> Layout:
    """Returns the layout of "left", "right" or "result" of a contraction under a plan.

    Args:
        instruction: The contraction.
        array: Type of the operand, or of the result.
        side: "left", "right" or "result".
        shape: The planned shape.
        plan: The plan.
    """
    dimensions = _dimensions(instruction, array, side, shape)
    found = _layout(dimensions, side, shape, plan) if dimensions else None
    if found is None:
        splits = ",".join(str(parts) for parts in plan.splits.values())
        return f"{shape.op} {side} {splits} of {array}"
    return found


def plan_blocks_of(shape: OpShape, plan: Plan) -> BlockLayout:
    """Returns the products of a plan as blocks on its tiles, numbered as in `plan_layout`."""
    names = _ORDER[_kind(shape)]
    axes = [_axis(shape.extents[name], name, shape, plan) for name in names]
    return BlockLayout(axes=tuple(axes), order=tuple(range(len(axes))))


@lru_cache(maxsize=_CACHED_LAYOUTS)
def _layout(
    dimensions: tuple[_Dimension, ...], side: str, shape: OpShape, plan: Plan
) -> Layout | None:
    axes: list[Axis] = []
    names: list[str] = []
    for extent, splits in dimensions:
        cut = _axes(extent, splits, shape, plan)
        if cut is None:
            return None
        axes += cut
        names += splits
    ranked = _ORDER[_kind(shape)]
    order = sorted(range(len(axes)), key=lambda place: ranked.index(names[place]))
    sharing = plan.tiles // math.prod(axis.coordinates for axis in axes)
    block_bytes = math.prod(axis.held for axis in axes) * DTYPE_BYTES[shape.dtype]
    most = ceil_div(block_bytes, _LEAST_PIECE_BYTES[side])
    return blocks(axes, order=order, share=max(1, min(sharing, most)))


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


def _kind(shape: OpShape) -> str:
    if isinstance(shape, MatMulShape):
        return "matmul"
    return "filter_gradient" if shape.pass_ == "filter_gradient" else "conv"


def _dimensions(
    instruction: Instruction, array: Array, side: str, shape: OpShape
) -> tuple[_Dimension, ...]:
    """Returns the dimensions of an array with their splits; () if they have none.

    Joins neighbouring dimensions of a dot that are split together.
    """
    if isinstance(shape, MatMulShape):
        numbers: DotDimensions = instruction.attributes["dot_dimension_numbers"]
        found = _joined(array.dims, _dot_splits(numbers, array.dims, side, shape))
    else:
        found = _conv_dimensions(instruction, array.dims, side, shape)
    names = [name for _, splits in found for name in splits]
    whole = all(
        extent == math.prod(shape.extents[name] for name in splits)
        for extent, splits in found
        if side != "left" or not splits[0].startswith("field")
    )
    return found if whole and len(set(names)) == len(names) else ()


def _dot_splits(
    numbers: DotDimensions, dims: Sequence[int], side: str, shape: MatMulShape
) -> list[str]:
    """Returns the split of every dimension of a dot's operand or result."""
    if side == "result":
        return _counted(dims, {"batch": shape.batch, "rows": shape.m, "columns": shape.n})
    if side == "left":
        batch, summed, free = numbers.lhs_batch, numbers.lhs_contracting, "rows"
    else:
        batch, summed, free = numbers.rhs_batch, numbers.rhs_contracting, "columns"
    return [
        "batch" if axis in batch else "reduction" if axis in summed else free
        for axis in range(len(dims))
    ]


def _counted(dims: Sequence[int], extents: Mapping[str, int]) -> list[str]:
    """Returns the extent of each dimension: dimensions fill up one extent after the other."""
    names = list(extents)
    found, filled = [], 1
    for extent in dims:
        while len(names) > 1 and filled >= extents[names[0]]:
            names.pop(0)
            filled = 1
        found.append(names[0])
        filled *= extent
    return found


def _joined(dims: Sequence[int], splits: Sequence[str]) -> tuple[_Dimension, ...]:
    """Returns dimensions with neighbours of one split joined, without those of one element."""
    found: list[_Dimension] = []
    for extent, name in zip(dims, splits, strict=True):
        if extent == 1:
            continue
        if found and found[-1][1] == (name,):
            found[-1] = (found[-1][0] * extent, (name,))
        else:
            found.append((extent, (name,)))
    return tuple(found)


def _conv_dimensions(
    instruction: Instruction, dims: Sequence[int], side: str, shape: ConvShape
) -> tuple[_Dimension, ...]:
    """Returns the dimensions of a convolution's operand or result with their splits."""
    numbers: ConvolutionDimensions = instruction.attributes["convolution_dimension_numbers"]
    outer, inner, spatial = {
        "left": (numbers.input_batch, numbers.input_feature, numbers.input_spatial),
        "right": (
            numbers.kernel_input_feature, numbers.kernel_output_feature, numbers.kernel_spatial,
        ),
        "result": (numbers.output_batch, numbers.output_feature, numbers.output_spatial),
    }[side]  # fmt: skip
    if len(spatial) > len(_FIELD):
        return ()
    is_filter = shape.pass_ == "filter_gradient"
    roles = (_FILTER_GRADIENT if is_filter else _CONVOLUTION)[side]
    windows = _KERNEL if side == ("result" if is_filter else "right") else _FIELD
    splits = {outer: roles[0], inner: roles[1]}
    splits |= {axis: (name,) for axis, name in zip(spatial, windows[-len(spatial) :], strict=True)}
    return tuple((dims[axis], splits[axis]) for axis in range(len(dims)))
