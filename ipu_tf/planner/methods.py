"""Lists the methods that can compute an op."""

from __future__ import annotations

import math

from ipu_tf.machine.contractions import METHODS
from ipu_tf.machine.contractions.slic import SLIC_CHANNELS
from ipu_tf.machine.cost import ceil_div
from ipu_tf.planner.shapes import AMP_GRAINS, ConvShape, OpShape

_SLIC_STRIDES = (1, 2)

_METHODS_BY_ROWS = {1: "amp_nx1", 2: "amp_nx1_2_rows", 4: "amp_nx1_4_rows"}
"""Methods by the rows of a filter in one pass."""


def methods_for(shape: OpShape) -> tuple[str, ...]:
    """Returns the methods that can compute an op; an earlier one wins a tie."""
    possible = _conv_methods(shape) if isinstance(shape, ConvShape) else _matmul_methods(shape.k)
    return tuple(method for method in possible if shape.dtype in METHODS[method].dtypes)


def _matmul_methods(k: int) -> tuple[str, ...]:
    # Layouts of operands fit the swapped methods (`MatMulShape.left_waits`).
    methods = ("amp_1x1_swapped", "amp_1x1", "horizontal_mac_swapped")
    return (*methods, "outer_product_swapped") if k == 1 else methods


def _conv_methods(shape: ConvShape) -> tuple[str, ...]:
    taps = math.prod(shape.extents[name] for name in _taps(shape))
    methods = ["amp_1x1"] if taps == 1 else [*_methods_by_rows(shape), "amp_nx1", "amp_expanded"]
    if _fills_passes(shape):
        methods.append("amp_nx1_expanded")
    if shape.groups > 1:
        methods.append("vertical_mac")
    if _fits_slic(shape):
        methods.append("slic")
    methods.append("horizontal_mac")
    if taps == 1 and shape.extents[shape.grained_split] == 1:
        methods.append("outer_product")
    return tuple(methods)


def _taps(shape: ConvShape) -> tuple[str, str]:
    if shape.pass_ == "filter_gradient":
        return ("batch", "field_rows")
    return ("kernel_rows", "kernel_columns")


def _fills_passes(shape: ConvShape) -> bool:
    """Whether a row of a filter fills AMP passes that the channels alone leave empty."""
    has_rows = min(shape.kernel_rows, shape.kernel_columns) > 1
    is_partial = shape.in_channels % AMP_GRAINS[shape.dtype] > 0
    return shape.pass_ == "forward" and has_rows and is_partial


def _methods_by_rows(shape: ConvShape) -> list[str]:
    """Returns the method whose passes hold as many rows of a filter as save most passes, if any."""
    if shape.pass_ == "filter_gradient":
        return []
    fewest = min(_METHODS_BY_ROWS, key=lambda rows: (_row_passes(shape, rows), rows))
    return [_METHODS_BY_ROWS[fewest]] if fewest > 1 else []


def _row_passes(shape: ConvShape, filter_rows: int) -> int:
    """Returns the passes over a column of the filter, for one group of output channels."""
    channels = AMP_GRAINS[shape.dtype] // filter_rows
    in_groups = ceil_div(shape.extents["in_channels"], channels)
    return in_groups * ceil_div(shape.kernel_rows, filter_rows)


def _fits_slic(shape: ConvShape) -> bool:
    narrow = max(shape.in_channels, shape.out_channels) <= SLIC_CHANNELS
    plain = shape.pass_ == "forward" and shape.strides[1] in _SLIC_STRIDES
    plain = plain or (shape.pass_ == "input_gradient" and shape.strides == (1, 1))
    return shape.groups > 1 and narrow and plain
