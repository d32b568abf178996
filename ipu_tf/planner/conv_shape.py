"""The shape of a 2-D convolution or of one of its gradients: extents, and the needs of a block."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ipu_tf.machine.contractions import ContractionWork
from ipu_tf.machine.cost import Count, ceil_div
from ipu_tf.planner.shape_terms import Block, Family, Operands, check_at_least, check_dtype
from ipu_tf.planner.windows import skips_positions, window_extent, window_reads, window_span

ConvPass: TypeAlias = Literal["forward", "input_gradient", "filter_gradient"]

CONV_PASSES: tuple[ConvPass, ...] = ("forward", "input_gradient", "filter_gradient")

_POSITIVE = (
    "batch",
    "in_rows",
    "in_columns",
    "in_channels",
    "out_channels",
    "groups",
    "kernel_rows",
    "kernel_columns",
    "out_rows",
    "out_columns",
    "strides",
    "dilations",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvShape:
    """A 2-D convolution or one of its gradients, named after the forward convolution.

    Attributes:
        pass_: Forward pass, input gradient or filter gradient; `pass` itself is a keyword.
        batch: Images.
        in_rows: Rows of the forward input.
        in_columns: Columns of the forward input.
        in_channels: Input channels of one group.
        out_channels: Output channels of one group.
        groups: Groups; the number of channels for a depthwise convolution.
        kernel_rows: Rows of the filter.
        kernel_columns: Columns of the filter.
        out_rows: Rows of the forward output.
        out_columns: Columns of the forward output.
        strides: Over rows and columns.
        dilations: Of the filter's rows and columns.
        padding: Zeros at the top, bottom, left and right of the forward input.
        dtype: Type of the inputs, "float32" or "float16".
    """

    pass_: ConvPass = "forward"
    batch: int
    in_rows: int
    in_columns: int
    in_channels: int
    out_channels: int
    groups: int = 1
    kernel_rows: int
    kernel_columns: int
    out_rows: int
    out_columns: int
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dtype: str = "float32"

    def __post_init__(self) -> None:
        check_dtype("ConvShape", self.dtype)
        if self.pass_ not in CONV_PASSES:
            raise ValueError(
                f"ConvShape.pass_ must be one of {CONV_PASSES}. Received: {self.pass_!r}."
            )
        for name, length in (("strides", 2), ("dilations", 2), ("padding", 4)):
            entries = getattr(self, name)
            if len(entries) != length:
                raise ValueError(
                    f"ConvShape.{name} must have {length} entries. Received: {entries!r}."
                )
        check_at_least(self, 1, _POSITIVE)
        check_at_least(self, 0, ("padding",))
        self._check_output()

    def _check_output(self) -> None:
        positions = tuple(
            window_extent(
                size=(self.in_rows, self.in_columns)[axis],
                kernel=(self.kernel_rows, self.kernel_columns)[axis],
                stride=self.strides[axis],
                dilation=self.dilations[axis],
                padding=self.padding[2 * axis : 2 * axis + 2],
            )
            for axis in (0, 1)
        )
        if (self.out_rows, self.out_columns) != positions:
            raise ValueError(
                f"ConvShape: the output of this convolution has {positions[0]} x {positions[1]} "
                f"positions. Received: out_rows={self.out_rows}, out_columns={self.out_columns}."
            )

    @property
    def op(self) -> str:
        """Name for messages."""
        return "conv2d" if self.pass_ == "forward" else f"conv2d {self.pass_.replace('_', ' ')}"

    @property
    def family(self) -> Family:
        """The kind of plans it takes, and of options that apply."""
        return "conv"

    @property
    def products(self) -> int:
        """The multiplications.

        A strided input gradient multiplies only where a tap meets an element, as often as the
        forward pass; every pass counts the taps that fall into the padding.
        """
        channels = self.groups * self.in_channels * self.out_channels
        taps = self.kernel_rows * self.kernel_columns
        return self.batch * channels * taps * self.out_rows * self.out_columns

    @property
    def extents(self) -> dict[str, int]:
        """Extents that a plan splits, in the plan's order (docs/numerics.md, "Plans")."""
        field = (self.out_rows, self.out_columns)
        channels = (self.out_channels, self.in_channels)
        if self.pass_ == "input_gradient":
            field = (self.in_rows, self.in_columns)
            channels = channels[::-1]
        return {
            "batch": self.batch,
            "groups": self.groups,
            "field_rows": field[0],
            "field_columns": field[1],
            "out_channels": channels[0],
            "in_channels": channels[1],
            "kernel_rows": self.kernel_rows,
            "kernel_columns": self.kernel_columns,
        }

    @property
    def reduction_splits(self) -> tuple[str, ...]:
        """Extents that are summed over, in the order in which their partials are added."""
        if self.pass_ == "filter_gradient":
            return ("batch", "field_rows", "field_columns")
        return ("kernel_rows", "kernel_columns", "in_channels")

    @property
    def grained_split(self) -> str:
        """The extent that is cut in whole AMP passes."""
        return "field_columns" if self.pass_ == "filter_gradient" else "in_channels"

    @property
    def column_split(self) -> str:
        """The extent that the columns of the AMP unit compute side by side."""
        return "out_channels"

    @property
    def channels(self) -> int:
        """Elements of a group that lie side by side in the left input."""
        return self.out_channels if self.pass_ == "input_gradient" else self.in_channels

    @property
    def part_order(self) -> tuple[str, ...]:
        """The extents in the order in which their parts number tiles, the slowest first.

        Parts of the result come before parts that are summed over.
        """
        if self.pass_ == "filter_gradient":
            return (
                "groups", "out_channels", "in_channels", "kernel_rows", "kernel_columns", "batch",
                "field_rows", "field_columns",
            )  # fmt: skip
        return (
            "batch", "field_rows", "field_columns", "groups", "out_channels", "in_channels",
            "kernel_rows", "kernel_columns",
        )  # fmt: skip

    @property
    def left_shared_by(self) -> tuple[str, ...]:
        """Splits whose parts read the same block of the left input (x, or dy)."""
        return ("out_channels",)

    @property
    def right_shared_by(self) -> tuple[str, ...]:
        """Splits whose parts read the same block of the right input (the filter, or dy)."""
        if self.pass_ == "filter_gradient":
            return ("in_channels", "kernel_rows", "kernel_columns")
        return ("batch", "field_rows", "field_columns")

    def pieces(self, unit: Callable[[str], Count]) -> tuple[Count | None, Count | None]:
        """Returns the elements of inputs that lie side by side on other tiles and on a plan's.

        They are all features of a pixel, which tiles hold in whole vectors. The filter of a forward
        pass is None: its variable lies as the plan wants it.
        """
        del unit
        left, right = self.channels, self.in_channels + self.out_channels - self.channels
        if self.pass_ == "forward":
            return self.groups * left, None
        is_filter = self.pass_ == "filter_gradient"
        return self.groups * left, self.groups * (right if is_filter else self.out_channels)

    def operands(self, block: Block) -> Operands:
        """Returns the elements that a tile holds for a block: halo included, skipped pixels not."""
        images = block["batch"] * block["groups"]
        field = images * block["field_rows"] * block["field_columns"]
        kernel = block["groups"] * block["kernel_rows"] * block["kernel_columns"]
        left = images * self._left_field(block) * block["in_channels"]
        weights = kernel * block["in_channels"] * block["out_channels"]
        field_by_channels = field * block["out_channels"]
        if self.pass_ == "filter_gradient":
            return Operands(left=left, right=field_by_channels, output=weights)
        return Operands(left=left, right=weights, output=field_by_channels)

    def _left_field(self, block: Block) -> Count:
        """Returns the positions of the left input that the block's windows read."""
        return self._left_reads(block, 0) * self._left_reads(block, 1)

    def _left_reads(self, block: Block, axis: int) -> Count:
        """Returns the rows (axis 0) or columns (axis 1) of the left input that windows read."""
        name = ("rows", "columns")[axis]
        field, kernel = block[f"field_{name}"], block[f"kernel_{name}"]
        stride, dilation = self.strides[axis], self.dilations[axis]
        if self.pass_ == "input_gradient":
            reads = ceil_div(window_span(field, kernel, stride=1, dilation=dilation), stride)
        elif self._skips(axis):
            reads = window_reads(field, kernel, stride=stride, dilation=dilation)
        else:
            reads = window_span(field, kernel, stride=stride, dilation=dilation)
        return np.minimum(self._left_extents[axis], reads)

    def _skips(self, axis: int) -> bool:
        """Whether the windows of the whole convolution skip rows or columns of the left input.

        Those are dropped before the input is sent (poplibs: expansion of a spatial dimension). A
        part of a kernel that skips none is sent everything from its first to its last tap.
        """
        return skips_positions(
            (self.out_rows, self.out_columns)[axis],
            (self.kernel_rows, self.kernel_columns)[axis],
            stride=self.strides[axis],
            dilation=self.dilations[axis],
        )

    @property
    def _left_extents(self) -> tuple[int, int]:
        """Rows and columns of the left input."""
        if self.pass_ == "input_gradient":
            return self.out_rows, self.out_columns
        return self.in_rows, self.in_columns

    @property
    def left_read_share(self) -> float:
        """The share of the left input that windows read; strided windows may skip the rest."""
        return float(self._left_field(self.extents) / math.prod(self._left_extents))

    def halo(self, block: Block) -> tuple[int, float]:
        """Returns how many blocks of the left input the windows of one block read.

        Args:
            block: Part sizes.

        Returns:
            The number of these blocks, its own included, and their elements over those of one.
        """
        pieces, ratio = 1, 1.0
        whole = self._left_extents
        field = (self.extents["field_rows"], self.extents["field_columns"])
        for axis, name in enumerate(("rows", "columns")):
            block_extent = block[f"field_{name}"] * whole[axis] / field[axis]
            around = max(0.0, float(self._left_reads(block, axis) / block_extent) - 1)
            pieces *= 1 + 2 * math.ceil(around / 2) if around else 1
            ratio *= 1 + around
        return pieces, ratio

    @property
    def undilated(self) -> ConvShape | None:
        """The gradient at the inputs that a window reads, if the others are zero; else None.

        A strided convolution of 1 x 1 skips inputs. Their gradients can be filled in after the
        multiplication (poplibs: dilation after the convolution).
        """
        is_skipping = self.kernel_rows * self.kernel_columns == 1 < math.prod(self.strides)
        if self.pass_ != "input_gradient" or not is_skipping or any(self.padding):
            return None
        return dataclasses.replace(
            self, in_rows=self.out_rows, in_columns=self.out_columns, strides=(1, 1)
        )

    @property
    def rearranged(self) -> tuple[bool, bool]:
        """Whether the left and the right input change their layout before the multiplication.

        The forward pass finds both in the layout it needs. The input gradient transposes the
        channels of the filter; the filter gradient turns pixels of image and gradient to channels.
        """
        return (self.pass_ == "filter_gradient", self.pass_ != "forward")

    @property
    def left_waits(self) -> bool:
        """Whether layouts assume that the left input stays in place while the right one streams.

        False: in a convolution the right input, the filter, stays in place.
        """
        return False

    def work(self, block: Block, partials: str) -> ContractionWork:
        """Returns the work of a tile for a block.

        The filter gradient uses the filter's positions and input channels as positions, the pixels
        of a row of `dy` as input channels, and its images and rows as taps. The input gradient of
        a strided convolution forms only the taps that meet an element of `dy`.
        """
        kernel = block["kernel_rows"] * block["kernel_columns"]
        images = block["batch"] * block["field_rows"]
        if self.pass_ == "filter_gradient":
            return ContractionWork(
                groups=block["groups"],
                out_channels=block["out_channels"],
                positions=kernel * block["in_channels"],
                row_positions=block["in_channels"],
                in_channels=block["field_columns"],
                taps=images,
                tap_rows=images,
                dtype=self.dtype,
                partials=partials,
            )
        strides = self.strides if self.pass_ == "input_gradient" else (1, 1)
        return ContractionWork(
            groups=block["groups"],
            out_channels=block["out_channels"],
            positions=images * block["field_columns"],
            row_positions=ceil_div(block["field_columns"], strides[1]),
            in_channels=block["in_channels"],
            taps=ceil_div(kernel, math.prod(strides)),
            tap_rows=ceil_div(block["kernel_rows"], strides[0]),
            stride=self.strides[1] if self.pass_ == "forward" else 1,
            dtype=self.dtype,
            partials=partials,
        )


def fold_depth(shape: ConvShape, *, kernel_depth: int, out_depth: int) -> ConvShape:
    """Returns the 2-D convolution that costs as much as a 3-D one.

    Every output plane becomes an image of the batch, every plane of the filter another set of
    input channels. The planes of the input that neighbouring output planes share count once for
    each of them. The result is for costs alone: no tile op computes a 3-D convolution.

    Args:
        shape: The convolution of single planes.
        kernel_depth: Planes of the filter.
        out_depth: Planes of the forward output.
    """
    return dataclasses.replace(
        shape, batch=shape.batch * out_depth, in_channels=shape.in_channels * kernel_depth
    )
