"""The runs of a convolution's tile: the products that it adds, in order.

Images are `[groups, batch, rows, columns, channels]` and filters `[groups, kernel rows, kernel
columns, in channels, out channels]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from ipu_tf.ops.reference.interpreter import Array, Ranges, Run, Tap
from ipu_tf.ops.reference.sources import GradientSource, WindowSource

Source: TypeAlias = WindowSource | GradientSource


class FieldRuns:
    """A run per kernel position of a tile: the input channels under it."""

    def __init__(self, image: Array, kernel: Array, sources: tuple[Source, Source]) -> None:
        self._image = image
        self._kernel = kernel
        self._rows, self._columns = sources

    def __call__(self, ranges: Ranges) -> Iterator[Run]:
        """Yields the runs of the tile that works on `ranges`."""
        image = self._image[np.ix_(ranges["groups"], ranges["batch"])]
        kernel = self._kernel[list(ranges["groups"])][..., list(ranges["out_channels"])]
        for kernel_row in ranges["kernel_rows"]:
            rows, rows_inside = self._rows(ranges["field_rows"], kernel_row)
            for kernel_column in ranges["kernel_columns"]:
                columns, columns_inside = self._columns(ranges["field_columns"], kernel_column)
                under_kernel = image[:, :, rows[:, None], columns[None, :]]
                weights = kernel[:, kernel_row, kernel_column]
                is_inside = (rows_inside[:, None] & columns_inside)[..., None]
                yield [
                    Tap(
                        left=under_kernel[..., i, None],
                        right=weights[:, None, None, None, i],
                        mask=is_inside,
                    )
                    for i in ranges["in_channels"]
                ]


class FilterRuns:
    """A run per image and row of `dy` of a tile: the columns of that row."""

    def __init__(self, image: Array, gradient: Array, sources: tuple[Source, Source]) -> None:
        self._image = image
        self._gradient = gradient
        self._rows, self._columns = sources

    def __call__(self, ranges: Ranges) -> Iterator[Run]:
        """Yields the runs of the tile that works on `ranges`."""
        image = self._image[list(ranges["groups"])][..., list(ranges["in_channels"])]
        gradient = self._gradient[list(ranges["groups"])][..., list(ranges["out_channels"])]
        for image_number in ranges["batch"]:
            for row in ranges["field_rows"]:
                yield [
                    self._tap(
                        image[:, image_number], gradient[:, image_number], ranges, row, column
                    )
                    for column in ranges["field_columns"]
                ]

    def _tap(self, image: Array, gradient: Array, ranges: Ranges, row: int, column: int) -> Tap:
        """Returns the products of one pixel of `dy` with what each kernel position saw."""
        rows, rows_inside = self._rows(row, ranges["kernel_rows"])
        columns, columns_inside = self._columns(column, ranges["kernel_columns"])
        return Tap(
            left=image[:, rows[:, None], columns[None, :], :, None],
            right=gradient[:, row, column][:, None, None, None, :],
            mask=(rows_inside[:, None] & columns_inside)[..., None, None],
        )
