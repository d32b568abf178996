"""Geometry of sliding windows along one axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import overload

import numpy as np

from ipu_tf.machine.cost import Count, ceil_div

_CACHED = 1 << 12


@overload
def window_span(windows: int, kernel: int, *, stride: int, dilation: int) -> int: ...
@overload
def window_span(windows: Count, kernel: Count, *, stride: int, dilation: int) -> Count: ...
def window_span(windows: Count, kernel: Count, *, stride: int, dilation: int) -> Count:
    """Returns the input positions from the first to the last tap of neighbouring windows."""
    return (windows - 1) * stride + (kernel - 1) * dilation + 1


def window_reads(windows: Count, kernel: Count, *, stride: int, dilation: int) -> Count:
    """Returns the input positions that taps of neighbouring windows read, each once.

    A tap meets the position of a tap of another window if that window is `dilation` / g windows
    away and the taps are `stride` / g apart, g being the greatest common divisor of the two.
    Positions between taps that no tap meets are skipped.
    """
    common = math.gcd(stride, dilation)
    common_windows = np.maximum(0, windows - dilation // common)
    common_taps = np.maximum(0, kernel - stride // common)
    return windows * kernel - common_windows * common_taps


@lru_cache(maxsize=_CACHED)
def skips_positions(windows: int, kernel: int, *, stride: int, dilation: int) -> bool:
    """Returns whether neighbouring windows leave out positions between their taps."""
    geometry = {"stride": stride, "dilation": dilation}
    return bool(
        window_reads(windows, kernel, **geometry) < window_span(windows, kernel, **geometry)
    )


def window_extent(
    *, size: int, kernel: int, stride: int, dilation: int, padding: Sequence[int]
) -> int:
    """Returns the number of windows that fit an axis of `size` with `padding` at its two ends."""
    room = size + sum(padding) - window_span(1, kernel, stride=stride, dilation=dilation)
    return max(0, room // stride + 1)


def same_padding(*, size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Returns the zeros before and after an axis that make `ceil(size / stride)` windows fit.

    As in TensorFlow, the odd zero goes to the end.
    """
    windows = ceil_div(size, stride)
    total = max(0, window_span(windows, kernel, stride=stride, dilation=dilation) - size)
    return total // 2, total - total // 2


def resolve_padding(
    padding: str | Sequence[int],
    *,
    sizes: tuple[int, int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int],
) -> tuple[int, int, int, int]:
    """Returns the zeros at the top, bottom, left and right of an image.

    Args:
        padding: "SAME", "VALID", or the four numbers themselves.
        sizes: Rows and columns of the image.
        kernel: Rows and columns of the filter.
        strides: Over rows and columns.
        dilations: Of the filter's rows and columns.

    Raises:
        ValueError: The padding is none of these.
    """
    if isinstance(padding, str):
        if padding == "VALID":
            return (0, 0, 0, 0)
        if padding == "SAME":
            top, bottom = same_padding(
                size=sizes[0], kernel=kernel[0], stride=strides[0], dilation=dilations[0]
            )
            left, right = same_padding(
                size=sizes[1], kernel=kernel[1], stride=strides[1], dilation=dilations[1]
            )
            return (top, bottom, left, right)
    elif len(padding) == 4 and all(zeros >= 0 for zeros in padding):
        top, bottom, left, right = (int(zeros) for zeros in padding)
        return (top, bottom, left, right)
    raise ValueError(
        'Padding must be "SAME", "VALID" or four non-negative numbers of zeros '
        f"(top, bottom, left, right). Received: {padding!r}."
    )
