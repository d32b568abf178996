"""`conv2d` and `depthwise_conv2d`: like `tf.nn`'s, tile by tile."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from ipu_tf.ops.kernels.apply import tile_op
from ipu_tf.planner.plan import ConvPlan

Padding = str | Sequence[Sequence[int]]


@tf.autograph.experimental.do_not_convert
def conv2d(
    input: tf.Tensor,
    filters: tf.Tensor,
    strides: int | Sequence[int],
    padding: Padding,
    data_format: str = "NHWC",
    dilations: int | Sequence[int] | None = None,
    name: str | None = None,
    *,
    plan: ConvPlan | None = None,
) -> tf.Tensor:
    """Returns a 2-D convolution, computed by a plan.

    Args:
        input: float32 or float16 of shape [batch, rows, columns, channels].
        filters: Same dtype, shape [rows, columns, channels / groups, out channels].
        strides: One number, two (rows, columns) or four (NHWC).
        padding: "SAME", "VALID", or [[0, 0], [top, bottom], [left, right], [0, 0]].
        data_format: "NHWC".
        dilations: Like `strides`; None means 1.
        name: Name of the op.
        plan: How the convolution is split over tiles; None asks the planner.

    Returns:
        Same dtype, shape [batch, out rows, out columns, out channels].

    Raises:
        ValueError: Shapes do not fit, dtypes differ, or the plan does not fit.
    """
    x, w = tf.convert_to_tensor(input), tf.convert_to_tensor(filters)
    attributes = conv_attributes(strides, padding, data_format, dilations)
    return tile_op("Conv2D", [x, w], attributes, plan=plan, name=name)


@tf.autograph.experimental.do_not_convert
def depthwise_conv2d(
    input: tf.Tensor,
    filter: tf.Tensor,
    strides: Sequence[int],
    padding: Padding,
    data_format: str | None = None,
    dilations: int | Sequence[int] | None = None,
    name: str | None = None,
    *,
    plan: ConvPlan | None = None,
) -> tf.Tensor:
    """Returns a depthwise 2-D convolution, computed by a plan.

    Args:
        input: float32 or float16 of shape [batch, rows, columns, channels].
        filter: Same dtype, shape [rows, columns, channels, multiplier].
        strides: Four numbers (NHWC), rows and columns alike.
        padding: As for `conv2d`.
        data_format: "NHWC".
        dilations: As for `conv2d`.
        name: Name of the op.
        plan: How the convolution is split over tiles; None asks the planner.

    Returns:
        Same dtype, shape [batch, out rows, out columns, channels * multiplier].

    Raises:
        ValueError: Shapes do not fit, dtypes differ, or the plan does not fit.
    """
    x, w = tf.convert_to_tensor(input), tf.convert_to_tensor(filter)
    attributes = conv_attributes(strides, padding, data_format or "NHWC", dilations)
    return tile_op("DepthwiseConv2dNative", [x, w], attributes, plan=plan, name=name)


def conv_attributes(
    strides: int | Sequence[int],
    padding: Padding,
    data_format: str,
    dilations: int | Sequence[int] | None,
) -> dict[str, object]:
    """Returns the attributes of a convolution op from the arguments of its Python function.

    Raises:
        ValueError: The format is not NHWC, or the padding is neither a name nor four pairs.
    """
    if data_format != "NHWC":
        raise ValueError(f"Tile convolutions take data_format='NHWC'. Received: {data_format!r}.")
    explicit: list[int] = []
    if isinstance(padding, str):
        kind = padding.upper()
    else:
        kind, explicit = "EXPLICIT", [int(zeros) for pair in padding for zeros in pair]
    if kind not in ("SAME", "VALID", "EXPLICIT") or (kind == "EXPLICIT" and len(explicit) != 8):
        raise ValueError(
            'padding must be "SAME", "VALID" or four pairs of zeros, one per dimension. '
            f"Received: {padding!r}."
        )
    return {
        "strides": _four(strides, "strides"),
        "padding": kind,
        "explicit_paddings": explicit,
        "data_format": data_format,
        "dilations": _four(1 if dilations is None else dilations, "dilations"),
    }


def _four(value: int | Sequence[int], name: str) -> list[int]:
    numbers = [value] if isinstance(value, int) else list(value)
    if len(numbers) in (1, 2):
        return [1, numbers[0], numbers[-1], 1]
    if len(numbers) == 4 and numbers[0] == numbers[3] == 1:
        return numbers
    raise ValueError(
        f"{name} must be one number, two (rows, columns) or four that start and end with 1. "
        f"Received: {value!r}."
    )
