"""The layouts that a plan wants for the operands and the result of a contraction.

Models operands without their halo: a window that reaches into a neighbour's block fetches the rest.
A plan with a third spatial dimension has a name instead of blocks, and so has a plan of groups that
its instruction writes in another way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ipu_tf.compiler.hlo import Array, ConvolutionDimensions, DotDimensions, Instruction
from ipu_tf.planner.plan import Plan
from ipu_tf.planner.shapes import OpShape
from ipu_tf.tile_program.layouts.layout import Layout
from ipu_tf.tile_program.layouts.plan_layout import PlanDimension, dimensions_layout

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
    layout = dimensions_layout(dimensions, side, shape, plan) if dimensions else None
    if layout is None:
        splits = ",".join(str(parts) for parts in plan.splits.values())
        return f"{shape.op} {side} {splits} of {array}"
    return layout


def _dimensions(
    instruction: Instruction, array: Array, side: str, shape: OpShape
) -> tuple[PlanDimension, ...]:
    """Returns the dimensions of an array with their splits; () if they have none.

    Joins neighbouring dimensions of a dot that are split together.
    """
    if shape.family == "matmul":
        numbers: DotDimensions = instruction.attributes["dot_dimension_numbers"]
        dimensions = _plan_dimensions(array.dims, _dot_splits(numbers, array.dims, side, shape))
    else:
        dimensions = _conv_dimensions(instruction, array.dims, side, shape)
    names = [name for _, splits in dimensions for name in splits]
    whole = all(
        extent == math.prod(shape.extents[name] for name in splits)
        for extent, splits in dimensions
        if side != "left" or not splits[0].startswith("field")
    )
    return dimensions if whole and len(set(names)) == len(names) else ()


def _dot_splits(
    numbers: DotDimensions, dims: Sequence[int], side: str, shape: OpShape
) -> list[str]:
    """Returns the split of every dimension of a dot's operand or result."""
    if side == "result":
        extents = {name: shape.extents[name] for name in ("batch", "rows", "columns")}
        return _extent_names(dims, extents)
    if side == "left":
        batch, summed, free = numbers.lhs_batch, numbers.lhs_contracting, "rows"
    else:
        batch, summed, free = numbers.rhs_batch, numbers.rhs_contracting, "columns"
    return [
        "batch" if axis in batch else "reduction" if axis in summed else free
        for axis in range(len(dims))
    ]


def _extent_names(dims: Sequence[int], extents: Mapping[str, int]) -> list[str]:
    """Returns the extent of each dimension: dimensions fill up one extent after the other."""
    names = list(extents)
    names_by_extent, covered_extent = [], 1
    for extent in dims:
        while len(names) > 1 and covered_extent >= extents[names[0]]:
            names.pop(0)
            covered_extent = 1
        names_by_extent.append(names[0])
        covered_extent *= extent
    return names_by_extent


def _plan_dimensions(dims: Sequence[int], splits: Sequence[str]) -> tuple[PlanDimension, ...]:
    """Returns dimensions with neighbours of one split joined, without those of one element."""
    dimensions: list[PlanDimension] = []
    for extent, name in zip(dims, splits, strict=True):
        if extent == 1:
            continue
        if dimensions and dimensions[-1][1] == (name,):
            dimensions[-1] = (dimensions[-1][0] * extent, (name,))
        else:
            dimensions.append((extent, (name,)))
    return tuple(dimensions)


def _conv_dimensions(
    instruction: Instruction, dims: Sequence[int], side: str, shape: OpShape
) -> tuple[PlanDimension, ...]:
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
