"""Structured attributes of HLO instructions, as frozen values.

Field names are those of HLO's protos. XLA's operation semantics define their meaning,
https://openxla.org/xla/operation_semantics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from ipu_tf.tile_program.embedded_program import EmbeddedProgram


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowDimension:
    """A window along one dimension.

    Attributes:
        size: Taps.
        stride: Elements between windows.
        padding_low: Elements added before the (base-dilated) input; negative ones crop it.
        padding_high: Elements added after it.
        window_dilation: Elements between taps; 1 is dense.
        base_dilation: Elements between elements of the input; 1 is dense.
        window_reversal: Whether the taps are taken last to first.
    """

    size: int
    stride: int = 1
    padding_low: int = 0
    padding_high: int = 0
    window_dilation: int = 1
    base_dilation: int = 1
    window_reversal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The window of a convolution (spatial dimensions) or a reduce-window (all dimensions)."""

    dimensions: tuple[WindowDimension, ...]

    @property
    def size(self) -> int:
        """Taps of the whole window."""
        taps = 1
        for dimension in self.dimensions:
            taps *= dimension.size
        return taps


@dataclass(frozen=True, slots=True, kw_only=True)
class DotDimensions:
    """The contracting and the batch dimensions of a dot's operands."""

    lhs_contracting: tuple[int, ...] = ()
    rhs_contracting: tuple[int, ...] = ()
    lhs_batch: tuple[int, ...] = ()
    rhs_batch: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionDimensions:
    """The meaning of every dimension of input, kernel and output."""

    input_batch: int
    input_feature: int
    input_spatial: tuple[int, ...]
    kernel_input_feature: int
    kernel_output_feature: int
    kernel_spatial: tuple[int, ...]
    output_batch: int
    output_feature: int
    output_spatial: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherDimensions:
    """How the indices of a gather address its operand."""

    offset_dims: tuple[int, ...] = ()
    collapsed_slice_dims: tuple[int, ...] = ()
    start_index_map: tuple[int, ...] = ()
    index_vector_dim: int = 0
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterDimensions:
    """How the indices of a scatter address its operand."""

    update_window_dims: tuple[int, ...] = ()
    inserted_window_dims: tuple[int, ...] = ()
    scatter_dims_to_operand_dims: tuple[int, ...] = ()
    index_vector_dim: int = 0
    input_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddingDimension:
    """Elements added along one dimension: before, after, and between every two."""

    low: int = 0
    high: int = 0
    interior: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceDimension:
    """The elements of a slice along one dimension: start, start + stride, ... < limit."""

    start: int
    limit: int
    stride: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TriangularSolveOptions:
    """Options of a triangular-solve."""

    left_side: bool = True
    lower: bool = True
    unit_diagonal: bool = False
    transpose: bool = False


Attribute = (
    Window
    | DotDimensions
    | ConvolutionDimensions
    | GatherDimensions
    | ScatterDimensions
    | TriangularSolveOptions
)
"""An attribute that is one dataclass; paddings and slices are tuples with one a dimension."""


class Attributes(TypedDict, total=False):
    """The attributes of an instruction, by HLO's names."""

    parameter_number: int
    tuple_index: int
    dimensions: tuple[int, ...]
    literal: np.ndarray
    window: Window
    dot_dimension_numbers: DotDimensions
    convolution_dimension_numbers: ConvolutionDimensions
    feature_group_count: int
    batch_group_count: int
    gather_dimension_numbers: GatherDimensions
    gather_slice_sizes: tuple[int, ...]
    scatter_dimension_numbers: ScatterDimensions
    triangular_solve_options: TriangularSolveOptions
    padding_config: tuple[PaddingDimension, ...]
    slice_dimensions: tuple[SliceDimension, ...]
    dynamic_slice_sizes: tuple[int, ...]
    comparison_direction: str
    distribution: str
    custom_call_target: str
    backend_config: str
    feature_index: int
    k: int
    fft_length: tuple[int, ...]
    replica_groups: tuple[tuple[int, ...], ...]
    source_target_pairs: tuple[tuple[int, int], ...]
    trip_count: int
    mean_trip_count: tuple[int, int]
    max_trip_count: int
    gradient_of: str
    gathered: bool
    kept_dimensions: tuple[int, ...]
    term: str
    whitens: bool
    program: EmbeddedProgram


ATTRIBUTE_TYPES: dict[str, type] = {
    "window": Window,
    "dot_dimension_numbers": DotDimensions,
    "convolution_dimension_numbers": ConvolutionDimensions,
    "gather_dimension_numbers": GatherDimensions,
    "scatter_dimension_numbers": ScatterDimensions,
    "triangular_solve_options": TriangularSolveOptions,
    "padding_config": PaddingDimension,
    "slice_dimensions": SliceDimension,
}
"""The type of each structured attribute by its key; of the last two: of its parts."""
