"""Reads the shape of a matmul or convolution off its HLO instruction.

Gradients of convolutions are convolutions in HLO, too. Their names in a `ConvShape` are those of
the forward convolution, so this module recognises them: an input gradient by the holes between the
elements of its input (or by its op's type), a filter gradient by its op's type, or by groups of
the batch. It plans any other convolution as written.

A convolution with a third spatial dimension is planned as one of two: the outermost output
positions become images, and the outermost taps channels of the reduction. Products and results
are the same in number; inputs that several outermost windows share count once for each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ipu_tf.compiler.hlo import (
    Array,
    ConvolutionDimensions,
    DotDimensions,
    Instruction,
    Window,
    WindowDimension,
)
from ipu_tf.compiler.lowering.lowering_error import LoweringError
from ipu_tf.machine.cost import ceil_div
from ipu_tf.planner.shapes import ConvShape, MatMulShape
from ipu_tf.planner.windows import window_extent, window_span

_PLAN_DTYPES = {"f32": "float32", "f16": "float16", "f8e4m3": "float8", "f8e5m2": "float8"}
"""Types that tiles multiply, by HLO's names."""

_SPATIAL = 2
_DENSE = WindowDimension(size=1)


def dtype_of(instruction: Instruction, operand: Array) -> str:
    """Returns the planner's name of the type of a contraction's operands.

    Raises:
        LoweringError: Tiles have no such products.
    """
    if operand.dtype not in _PLAN_DTYPES:
        raise LoweringError(
            instruction,
            f"tiles multiply matrices of {', '.join(_PLAN_DTYPES)}, not of {operand.dtype}; cast "
            "the operands.",
        )
    return _PLAN_DTYPES[operand.dtype]


def dot_shape(instruction: Instruction, left: Array, right: Array) -> MatMulShape:
    """Returns the shape of a dot: batch, rows, columns and reduction are products of extents."""
    numbers: DotDimensions = instruction.attributes["dot_dimension_numbers"]
    batch = math.prod(left.dims[axis] for axis in numbers.lhs_batch)
    inner = math.prod(left.dims[axis] for axis in numbers.lhs_contracting)
    return MatMulShape(
        batch=batch,
        m=left.elements // (batch * inner),
        k=inner,
        n=right.elements // (batch * inner),
        dtype=dtype_of(instruction, left),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """One spatial dimension of a convolution as it is written.

    Attributes:
        size: Extent of the input.
        taps: Extent of the kernel.
        positions: Extent of the output.
        window: How the kernel moves.
    """

    size: int = 1
    taps: int = 1
    positions: int = 1
    window: WindowDimension = _DENSE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Geometry:
    """One spatial dimension of a `ConvShape`."""

    in_size: int
    kernel: int
    out_size: int
    stride: int
    dilation: int
    padding: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ConvolutionExtents:
    """A convolution as it is written.

    Attributes:
        images: Extent of the input's batch dimension.
        channels: Extent of the input's feature dimension.
        kernel_in: Extent of the kernel's input features: those of a group.
        kernel_out: Extent of the kernel's output features: of all groups.
        feature_groups: Groups of the features.
        batch_groups: Groups of the batch.
        axes: The spatial dimensions, the outermost first.
        dtype: The planner's name of the operands' type.
    """

    images: int
    channels: int
    kernel_in: int
    kernel_out: int
    feature_groups: int
    batch_groups: int
    axes: tuple[_Axis, ...]
    dtype: str


def conv_shape(instruction: Instruction, left: Array, right: Array, result: Array) -> ConvShape:
    """Returns the shape of a convolution of one, two or three spatial dimensions.

    Raises:
        LoweringError: It has more of them, or combines strides with holes in its input.
    """
    convolution = _extents_of_attributes(instruction, left, right, result)
    has_holes = any(axis.window.base_dilation > 1 for axis in convolution.axes)
    has_strides = any(axis.window.stride > 1 for axis in convolution.axes)
    if has_holes and has_strides:
        raise LoweringError(
            instruction, "it has both strides and holes in its input; use one after the other."
        )
    if "BackpropFilter" in instruction.op_type or convolution.batch_groups > 1:
        return _filter_gradient(convolution)
    if has_holes or ("BackpropInput" in instruction.op_type and not has_strides):
        return _input_gradient(convolution)
    return _forward(convolution)


def _extents_of_attributes(
    instruction: Instruction, left: Array, right: Array, result: Array
) -> _ConvolutionExtents:
    numbers: ConvolutionDimensions = instruction.attributes["convolution_dimension_numbers"]
    window: Window = instruction.attributes["window"]
    axes = tuple(
        _Axis(
            size=left.dims[numbers.input_spatial[number]],
            taps=right.dims[numbers.kernel_spatial[number]],
            positions=result.dims[numbers.output_spatial[number]],
            window=dimension,
        )
        for number, dimension in enumerate(window.dimensions)
    )
    if len(axes) > _SPATIAL + 1:
        raise LoweringError(
            instruction, f"convolutions have at most three spatial dimensions, it has {len(axes)}."
        )
    return _ConvolutionExtents(
        images=left.dims[numbers.input_batch],
        channels=left.dims[numbers.input_feature],
        kernel_in=right.dims[numbers.kernel_input_feature],
        kernel_out=right.dims[numbers.kernel_output_feature],
        feature_groups=instruction.attributes.get("feature_group_count", 1),
        batch_groups=instruction.attributes.get("batch_group_count", 1),
        axes=(_Axis(),) * max(0, _SPATIAL - len(axes)) + axes,
        dtype=dtype_of(instruction, left),
    )


def _forward(convolution: _ConvolutionExtents) -> ConvShape:
    *outer, rows, columns = convolution.axes
    depth = outer[0] if outer else _Axis()
    return _shape(
        convolution.dtype,
        _forward_geometry(rows),
        _forward_geometry(columns),
        pass_="forward",
        batch=convolution.images * depth.positions,
        in_channels=convolution.kernel_in * depth.taps,
        out_channels=convolution.kernel_out // convolution.feature_groups,
        groups=convolution.feature_groups,
    )


def _forward_geometry(axis: _Axis) -> _Geometry:
    """Returns the geometry of a window that moves forward; negative padding crops the input."""
    window = axis.window
    low, high = window.padding_low, window.padding_high
    size = axis.size + min(low, 0) + min(high, 0)
    return _fit(
        in_size=size,
        kernel=axis.taps,
        out_size=axis.positions,
        stride=window.stride,
        dilation=window.window_dilation,
        padding_low=max(low, 0),
    )


def _input_gradient(convolution: _ConvolutionExtents) -> ConvShape:
    """Returns the shape of a convolution over gradients with holes, or over reversed taps.

    Its input is the forward output, its output the forward input.
    """
    *outer, rows, columns = convolution.axes
    depth = outer[0] if outer else _Axis()
    # Of the outermost taps only those that meet an element form products.
    depth_taps = ceil_div(depth.taps, depth.window.base_dilation)
    return _shape(
        convolution.dtype,
        _gradient_geometry(rows),
        _gradient_geometry(columns),
        pass_="input_gradient",
        batch=convolution.images * depth.positions,
        in_channels=convolution.kernel_out // convolution.feature_groups,
        out_channels=convolution.kernel_in * depth_taps,
        groups=convolution.feature_groups,
    )


def _gradient_geometry(axis: _Axis) -> _Geometry:
    window = axis.window
    reach = window_span(1, axis.taps, stride=1, dilation=window.window_dilation)
    return _fit(
        in_size=axis.positions,
        kernel=axis.taps,
        out_size=axis.size,
        stride=window.base_dilation,
        dilation=window.window_dilation,
        padding_low=max(0, reach - 1 - window.padding_low),
    )


def _filter_gradient(convolution: _ConvolutionExtents) -> ConvShape:
    """Returns the shape of a convolution whose taps are the forward output's positions.

    Its batch is the forward input's channels, its features the forward batch.
    """
    *outer, rows, columns = convolution.axes
    depth = outer[0] if outer else _Axis()
    groups = max(convolution.batch_groups, convolution.feature_groups)
    return _shape(
        convolution.dtype,
        _filter_geometry(rows),
        _filter_geometry(columns),
        pass_="filter_gradient",
        batch=convolution.kernel_in * depth.taps,
        in_channels=convolution.images // convolution.batch_groups * depth.positions,
        out_channels=convolution.kernel_out // groups,
        groups=groups,
    )


def _filter_geometry(axis: _Axis) -> _Geometry:
    window = axis.window
    return _fit(
        in_size=axis.size + min(window.padding_low, 0),
        kernel=axis.positions,
        out_size=axis.taps,
        stride=window.window_dilation,
        dilation=window.stride,
        padding_low=max(window.padding_low, 0),
    )


def _fit(
    *, in_size: int, kernel: int, out_size: int, stride: int, dilation: int, padding_low: int
) -> _Geometry:
    """Returns a geometry whose padding at the end, or whose end, fits the output.

    Leaves out elements behind the last window, which are not read, and elements that HLO crops.
    """
    reach = int(window_span(out_size, kernel, stride=stride, dilation=dilation))
    padding_high = max(0, reach - padding_low - in_size)
    extent = window_extent(
        size=in_size,
        kernel=kernel,
        stride=stride,
        dilation=dilation,
        padding=(padding_low, padding_high),
    )
    if extent > out_size:
        in_size = max(1, reach + stride - 1 - padding_low)
    return _Geometry(
        in_size=in_size,
        kernel=kernel,
        out_size=out_size,
        stride=stride,
        dilation=dilation,
        padding=(padding_low, padding_high),
    )


def _shape(dtype: str, rows: _Geometry, columns: _Geometry, **counts: int | str) -> ConvShape:
    return ConvShape(
        in_rows=rows.in_size,
        in_columns=columns.in_size,
        kernel_rows=rows.kernel,
        kernel_columns=columns.kernel,
        out_rows=rows.out_size,
        out_columns=columns.out_size,
        strides=(rows.stride, columns.stride),
        dilations=(rows.dilation, columns.dilation),
        padding=(*rows.padding, *columns.padding),
        dtype=dtype,
        **counts,  # type: ignore[arg-type]
    )
