"""Derives the shape that a plan splits from a TensorFlow op.

Every function here takes an op's attributes and the static shapes of its inputs and returns the
`OpShape` of its tile twin, or raises `Untileable` with the reason why it has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypedDict

from ipu_tf.ops.kernels import einsum
from ipu_tf.planner.shapes import ConvPass, ConvShape, MatMulShape, OpShape
from ipu_tf.planner.windows import resolve_padding, window_extent

Shape = list[int]


class TileOpAttributes(TypedDict, total=False):
    """The attributes of ops by which their shapes are read, each of its own."""

    transpose_a: bool
    transpose_b: bool
    adj_x: bool
    adj_y: bool
    equation: str
    data_format: str
    strides: list[int]
    dilations: list[int]
    padding: str
    explicit_paddings: list[int]


class Untileable(Exception):
    """An op has no tile twin; the message is the reason that the report shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpInputs:
    """The properties of an op that are known before it is created.

    Attributes:
        op: Its name, for messages.
        attributes: Its attributes as Python values, strings decoded.
        shapes: Static shapes of the inputs.
        sizes: The values of a gradient op's `input_sizes` or `filter_sizes` input, else None.
        dtype: Type of the inputs, such as "float32".
    """

    op: str
    attributes: TileOpAttributes
    shapes: Sequence[Shape]
    sizes: Shape | None
    dtype: str


def matmul_shape(op: OpInputs) -> OpShape:
    """Returns the shape of a MatMul."""
    (rows, inner), (inner_b, columns) = op.shapes
    if op.attributes["transpose_a"]:
        rows, inner = inner, rows
    if op.attributes["transpose_b"]:
        inner_b, columns = columns, inner_b
    _check_inner(op, inner, inner_b)
    return _matmul(op, 1, rows, inner, columns)


def batch_matmul_shape(op: OpInputs) -> OpShape:
    """Returns the shape of a BatchMatMulV2 or V3.

    The rows of all matrices that one matrix multiplies from the right are those of one product.
    """
    left, right = op.shapes
    if len(left) < 2 or len(right) < 2:
        raise ValueError(f"Batched matmul '{op.op}' needs matrices. Received: {left}, {right}.")
    rows, inner = left[-2:][::-1] if op.attributes["adj_x"] else left[-2:]
    inner_b, columns = right[-2:][::-1] if op.attributes["adj_y"] else right[-2:]
    _check_inner(op, inner, inner_b)
    batch = math.prod(_broadcast(op, left[:-2], right[:-2]))
    if math.prod(right[:-2]) == 1 and not op.attributes["adj_x"]:
        return _matmul(op, 1, batch * rows, inner, columns)
    return _matmul(op, batch, rows, inner, columns)


def einsum_shape(op: OpInputs) -> OpShape:
    """Returns the shape of an Einsum if it is a batched matmul."""
    equation = op.attributes["equation"]
    try:
        roles = einsum.labels_of(equation)
        sizes = einsum.sizes_of(equation, *op.shapes)
    except einsum.NotAMatMul as error:
        raise Untileable(str(error)) from None
    batch, m, n, k = (
        math.prod(sizes[label] for label in labels)
        for labels in (roles.batch, roles.rows, roles.columns, roles.reduction)
    )
    return _matmul(op, batch, m, k, n)


def conv_shape(pass_: ConvPass, *, depthwise: bool) -> Callable[[OpInputs], OpShape]:
    """Returns the shape function of one pass of Conv2D or DepthwiseConv2dNative."""

    def shape(op: OpInputs) -> OpShape:
        return _conv_shape(op, pass_, depthwise=depthwise)

    return shape


def _of_image(axes: Sequence[int]) -> tuple[int, int]:
    """Returns the entries of the height and of the width among those of all axes."""
    _, height, width, _ = axes
    return height, width


def _conv_shape(op: OpInputs, pass_: ConvPass, *, depthwise: bool) -> OpShape:
    attributes = op.attributes
    if attributes["data_format"] != "NHWC":
        raise Untileable(f"data format {attributes['data_format']}; tile ops take NHWC")
    image, kernel = _image_and_kernel(op, pass_)
    strides, dilations = _of_image(attributes["strides"]), _of_image(attributes["dilations"])
    padding: str | list[int] = attributes["padding"]
    if padding == "EXPLICIT":
        padding = attributes["explicit_paddings"][2:6]
    if 0 in kernel or 0 in image:
        raise ValueError(
            f"Convolution '{op.op}' has a zero-sized dimension. Received: image {image}, "
            f"filter {kernel}. The simulated IPU has no zero-sized tensors."
        )
    zeros = resolve_padding(
        padding,
        sizes=(image[1], image[2]),
        kernel=(kernel[0], kernel[1]),
        strides=strides,
        dilations=dilations,
    )
    out = [
        window_extent(
            size=image[1 + axis],
            kernel=kernel[axis],
            stride=strides[axis],
            dilation=dilations[axis],
            padding=zeros[2 * axis : 2 * axis + 2],
        )
        for axis in (0, 1)
    ]
    groups = image[3] if depthwise else image[3] // kernel[2]
    if not depthwise and (image[3] % kernel[2] or kernel[3] % groups):
        raise ValueError(
            f"Convolution '{op.op}': {image[3]} channels of the image and a filter of shape "
            f"{kernel} do not make whole groups."
        )
    if 0 in out:
        raise ValueError(
            f"Convolution '{op.op}' has no output: the filter {kernel[:2]} (dilated by "
            f"{list(dilations)}) is larger than the padded image {image[1:3]}."
        )
    return ConvShape(
        pass_=pass_,
        batch=image[0],
        in_rows=image[1],
        in_columns=image[2],
        in_channels=1 if depthwise else kernel[2],
        out_channels=kernel[3] if depthwise else kernel[3] // groups,
        groups=groups,
        kernel_rows=kernel[0],
        kernel_columns=kernel[1],
        out_rows=out[0],
        out_columns=out[1],
        strides=(strides[0], strides[1]),
        dilations=(dilations[0], dilations[1]),
        padding=zeros,
        dtype=op.dtype,
    )


def _image_and_kernel(op: OpInputs, pass_: ConvPass) -> tuple[Shape, Shape]:
    """Returns the shapes of the forward input and of the filter."""
    if pass_ == "forward":
        return list(op.shapes[0]), list(op.shapes[1])
    if op.sizes is None:
        raise ValueError(
            f"Convolution gradient '{op.op}' gets its sizes from a tensor that is not constant. "
            "Shapes are static on the IPU: give the sizes as Python integers."
        )
    if pass_ == "input_gradient":
        return op.sizes, list(op.shapes[1])
    return list(op.shapes[0]), op.sizes


def _matmul(op: OpInputs, batch: int, m: int, k: int, n: int) -> MatMulShape:
    if 0 in (batch, m, k, n):
        raise ValueError(
            f"Matmul '{op.op}' has a zero-sized dimension. Received shapes {op.shapes[0]} and "
            f"{op.shapes[1]}. The simulated IPU has no zero-sized tensors."
        )
    return MatMulShape(batch=batch, m=m, k=k, n=n, dtype=op.dtype)


def _check_inner(op: OpInputs, left: int, right: int) -> None:
    if left != right:
        raise ValueError(
            f"Matmul '{op.op}': inner dimensions differ, {left} and {right}. "
            f"Received shapes {op.shapes[0]} and {op.shapes[1]}."
        )


def _broadcast(op: OpInputs, left: Shape, right: Shape) -> Shape:
    rank = max(len(left), len(right))
    left, right = ([1] * (rank - len(side)) + list(side) for side in (left, right))
    if any(a != b and 1 not in (a, b) for a, b in zip(left, right, strict=True)):
        raise ValueError(f"Matmul '{op.op}': batch dimensions {left} and {right} do not broadcast.")
    return [max(a, b) for a, b in zip(left, right, strict=True)]
