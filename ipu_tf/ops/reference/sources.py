"""The element of an image that a kernel position reads, along one axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ipu_tf.planner.plan import ConvShape

Positions: TypeAlias = Sequence[int] | int

Reads: TypeAlias = tuple[NDArray[np.int64], NDArray[np.bool_]]
"""Indices to read, and whether each read is real; where it is not, the index is some valid one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """Geometry of the forward convolution along one axis."""

    inputs: int
    outputs: int
    kernel: int
    stride: int
    dilation: int
    padding: int

    @classmethod
    def along(cls, shape: ConvShape, axis: int) -> Self:
        """Returns the geometry along the rows (0) or columns (1)."""
        return cls(
            inputs=(shape.in_rows, shape.in_columns)[axis],
            outputs=(shape.out_rows, shape.out_columns)[axis],
            kernel=(shape.kernel_rows, shape.kernel_columns)[axis],
            stride=shape.strides[axis],
            dilation=shape.dilations[axis],
            padding=shape.padding[2 * axis],
        )


class WindowSource(_Axis):
    """Reads of the forward convolution: windows that slide over the input."""

    __slots__ = ()

    def __call__(self, positions: Positions, kernel: Positions) -> Reads:
        """Returns the inputs under the kernel, for output positions; either is a single number."""
        index = np.asarray(positions) * self.stride + np.asarray(kernel) * self.dilation
        index = index - self.padding
        return np.clip(index, 0, self.inputs - 1), (index >= 0) & (index < self.inputs)


class GradientSource(_Axis):
    """Reads of the input gradient: outputs whose windows covered an input, by flipped kernel."""

    __slots__ = ()

    def __call__(self, positions: Positions, kernel: Positions) -> Reads:
        """Returns the outputs that input positions met through the flipped kernel."""
        unflipped = self.kernel - 1 - np.asarray(kernel)
        strided = np.asarray(positions) + self.padding - unflipped * self.dilation
        index = strided // self.stride
        inside = (strided % self.stride == 0) & (index >= 0) & (index < self.outputs)
        return np.clip(index, 0, self.outputs - 1), inside
