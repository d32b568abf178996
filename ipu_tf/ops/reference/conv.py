"""Convolutions and their gradients, executed by plan.

Inside, images are `[groups, batch, rows, columns, channels]` and filters `[groups, kernel rows,
kernel columns, in channels, out channels]`, the order in which docs/numerics.md counts tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ipu_tf.ops.reference.conv_runs import FieldRuns, FilterRuns
from ipu_tf.ops.reference.interpreter import Array, PlannedOp, execute
from ipu_tf.ops.reference.rounding import NEAREST, Rounding
from ipu_tf.ops.reference.sources import GradientSource, WindowSource
from ipu_tf.planner.plan import AMP_GRAINS, ConvPass, ConvPlan, ConvShape, check_parts
from ipu_tf.planner.windows import resolve_padding, window_extent

Padding: TypeAlias = str | Sequence[int]

_FIELD_SPLITS = ("groups", "batch", "field_rows", "field_columns", "out_channels")
_FILTER_SPLITS = ("groups", "kernel_rows", "kernel_columns", "in_channels", "out_channels")


def conv2d(
    x: NDArray[np.floating],
    w: NDArray[np.floating],
    plan: ConvPlan | None = None,
    *,
    strides: tuple[int, int] = (1, 1),
    padding: Padding = "VALID",
    dilations: tuple[int, int] = (1, 1),
    rounding: Rounding = NEAREST,
) -> NDArray[np.floating]:
    """Returns the 2-D convolution of images with a filter, computed by plan.

    Args:
        x: Images, `[batch, rows, columns, channels]`; float32 or float16.
        w: Filter, `[kernel rows, kernel columns, channels of a group, out channels]`.
        plan: How the convolution is split over tiles; None computes it on one tile.
        strides: Over rows and columns.
        padding: "SAME", "VALID" or the zeros at the top, bottom, left and right.
        dilations: Of the filter's rows and columns.
        rounding: How float16 is rounded.

    Returns:
        `[batch, out rows, out columns, out channels]`, of the inputs' type.

    Raises:
        ValueError: The types or shapes do not fit together, or the plan splits an extent into too
            many parts.
    """
    shape = _shape("forward", x.shape, w.shape, (x, w), strides, padding, dilations)
    sources = (WindowSource.along(shape, 0), WindowSource.along(shape, 1))
    runs = FieldRuns(_by_group(x, shape.groups), _filter_by_group(w, shape.groups), sources)
    op = PlannedOp(shape=shape, output_splits=_FIELD_SPLITS, runs=runs)
    return _image(execute(op, _checked(plan, shape), rounding))


def conv2d_input_gradient(
    input_shape: Sequence[int],
    w: NDArray[np.floating],
    dy: NDArray[np.floating],
    plan: ConvPlan | None = None,
    *,
    strides: tuple[int, int] = (1, 1),
    padding: Padding = "VALID",
    dilations: tuple[int, int] = (1, 1),
    rounding: Rounding = NEAREST,
) -> NDArray[np.floating]:
    """Returns the gradient of `conv2d` with respect to its images, given `dy` of its result.

    Runs as a convolution of `dy` with the flipped, transposed filter.

    Args:
        input_shape: Shape of the images.
        w: Filter of the convolution.
        dy: Gradient of its result.
        plan: How the gradient is split over tiles; None computes it on one tile.
        strides: Of the convolution.
        padding: Of the convolution.
        dilations: Of the convolution.
        rounding: How float16 is rounded.

    Raises:
        ValueError: As for `conv2d`.
    """
    x_shape = tuple(input_shape)
    shape = _shape("input_gradient", x_shape, w.shape, (w, dy), strides, padding, dilations)
    _check_gradient(dy, shape)
    flipped = _filter_by_group(w, shape.groups)[:, ::-1, ::-1].swapaxes(-1, -2)
    sources = (GradientSource.along(shape, 0), GradientSource.along(shape, 1))
    runs = FieldRuns(_by_group(dy, shape.groups), flipped, sources)
    op = PlannedOp(shape=shape, output_splits=_FIELD_SPLITS, runs=runs)
    return _image(execute(op, _checked(plan, shape), rounding))


def conv2d_filter_gradient(
    x: NDArray[np.floating],
    filter_shape: Sequence[int],
    dy: NDArray[np.floating],
    plan: ConvPlan | None = None,
    *,
    strides: tuple[int, int] = (1, 1),
    padding: Padding = "VALID",
    dilations: tuple[int, int] = (1, 1),
    rounding: Rounding = NEAREST,
) -> NDArray[np.floating]:
    """Returns the gradient of `conv2d` with respect to its filter, given `dy` of its result.

    Runs as a matmul that sums over the pixels of `dy`.

    Args:
        x: Images of the convolution.
        filter_shape: Shape of its filter.
        dy: Gradient of its result.
        plan: How the gradient is split over tiles; None computes it on one tile.
        strides: Of the convolution.
        padding: Of the convolution.
        dilations: Of the convolution.
        rounding: How float16 is rounded.

    Raises:
        ValueError: As for `conv2d`.
    """
    w_shape = tuple(filter_shape)
    shape = _shape("filter_gradient", x.shape, w_shape, (x, dy), strides, padding, dilations)
    _check_gradient(dy, shape)
    sources = (WindowSource.along(shape, 0), WindowSource.along(shape, 1))
    runs = FilterRuns(_by_group(x, shape.groups), _by_group(dy, shape.groups), sources)
    op = PlannedOp(shape=shape, output_splits=_FILTER_SPLITS, runs=runs)
    gradient = execute(op, _checked(plan, shape), rounding)
    return np.moveaxis(gradient, 0, -2).reshape(w_shape)


def depthwise_conv2d(
    x: NDArray[np.floating],
    w: NDArray[np.floating],
    plan: ConvPlan | None = None,
    *,
    strides: tuple[int, int] = (1, 1),
    padding: Padding = "VALID",
    dilations: tuple[int, int] = (1, 1),
    rounding: Rounding = NEAREST,
) -> NDArray[np.floating]:
    """Returns the depthwise convolution of images with a filter of one group per channel.

    The filter is `[kernel rows, kernel columns, channels, multiplier]`; everything else is as in
    `conv2d`. Its gradients are those of `conv2d` for the filter `as_grouped_filter(w)`.
    """
    return conv2d(
        x,
        as_grouped_filter(w),
        plan,
        strides=strides,
        padding=padding,
        dilations=dilations,
        rounding=rounding,
    )


def as_grouped_filter(w: NDArray[np.floating]) -> NDArray[np.floating]:
    """Returns a depthwise filter as the filter of a convolution with one group per channel."""
    kernel_rows, kernel_columns, channels, multiplier = w.shape
    return w.reshape(kernel_rows, kernel_columns, 1, channels * multiplier)


def _shape(
    pass_: ConvPass,
    x_shape: Sequence[int],
    w_shape: Sequence[int],
    operands: tuple[NDArray[np.floating], NDArray[np.floating]],
    strides: tuple[int, int],
    padding: Padding,
    dilations: tuple[int, int],
) -> ConvShape:
    left, right = operands
    if left.dtype != right.dtype or left.dtype not in ("float32", "float16"):
        raise ValueError(
            "A convolution takes two float32 or two float16 inputs. "
            f"Received: {left.dtype} and {right.dtype}."
        )
    if len(x_shape) != 4 or len(w_shape) != 4 or x_shape[3] % w_shape[2]:
        raise ValueError(
            "A convolution takes images [batch, rows, columns, channels] and a filter [rows, "
            "columns, channels of a group, out channels], where the group's channels divide the "
            f"channels. Received: {tuple(x_shape)} and {tuple(w_shape)}."
        )
    groups = x_shape[3] // w_shape[2]
    if w_shape[3] % groups:
        raise ValueError(
            f"{groups} groups do not divide the out channels of the filter. "
            f"Received: {tuple(x_shape)} and {tuple(w_shape)}."
        )
    sizes, kernel = (x_shape[1], x_shape[2]), (w_shape[0], w_shape[1])
    zeros = resolve_padding(
        padding, sizes=sizes, kernel=kernel, strides=strides, dilations=dilations
    )
    out_rows, out_columns = (
        window_extent(
            size=sizes[axis],
            kernel=kernel[axis],
            stride=strides[axis],
            dilation=dilations[axis],
            padding=zeros[2 * axis : 2 * axis + 2],
        )
        for axis in (0, 1)
    )
    return ConvShape(
        pass_=pass_,
        batch=x_shape[0],
        in_rows=sizes[0],
        in_columns=sizes[1],
        in_channels=w_shape[2],
        out_channels=w_shape[3] // groups,
        groups=groups,
        kernel_rows=kernel[0],
        kernel_columns=kernel[1],
        out_rows=out_rows,
        out_columns=out_columns,
        strides=strides,
        dilations=dilations,
        padding=zeros,
        dtype=left.dtype.name,
    )


def _checked(plan: ConvPlan | None, shape: ConvShape) -> ConvPlan:
    plan = ConvPlan(grain=AMP_GRAINS[shape.dtype]) if plan is None else plan
    check_parts(plan, shape)
    return plan


def _check_gradient(dy: NDArray[np.floating], shape: ConvShape) -> None:
    channels = shape.groups * shape.out_channels
    expected = (shape.batch, shape.out_rows, shape.out_columns, channels)
    if dy.shape != expected:
        raise ValueError(f"The gradient of this convolution is {expected}. Received: {dy.shape}.")


def _by_group(image: NDArray[np.floating], groups: int) -> Array:
    """Returns images with the groups of channels outermost."""
    split = image.reshape((*image.shape[:3], groups, -1))
    return np.moveaxis(split, 3, 0).astype(np.float32)


def _filter_by_group(w: NDArray[np.floating], groups: int) -> Array:
    """Returns a filter with the groups of out channels outermost."""
    split = w.reshape((*w.shape[:3], groups, -1))
    return np.moveaxis(split, 3, 0).astype(np.float32)


def _image(by_group: NDArray[np.floating]) -> NDArray[np.floating]:
    """Returns images with their channels together, the inverse of `_by_group`."""
    together = np.moveaxis(by_group, 0, 3)
    return together.reshape((*together.shape[:3], -1))
