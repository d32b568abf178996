"""The fields that are read of XLA's protos, by the names of hlo.proto and xla_data.proto."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol


class LayoutProto(Protocol):
    """The layout of an array."""

    minor_to_major: Sequence[int]


class ShapeProto(Protocol):
    """The type of an array or a tuple."""

    element_type: int
    dimensions: Sequence[int]
    tuple_shapes: Sequence[ShapeProto]
    layout: LayoutProto

    def SerializeToString(self) -> bytes:
        """Returns the proto as bytes."""


class LiteralProto(Protocol):
    """A value; the field that holds its elements depends on their type."""

    shape: ShapeProto
    bf16s: bytes


class OpMetadata(Protocol):
    """Where an instruction comes from."""

    op_name: str
    op_type: str


class WindowDimensionProto(Protocol):
    """A window along one dimension."""

    size: int
    stride: int
    padding_low: int
    padding_high: int
    window_dilation: int
    base_dilation: int
    window_reversal: bool


class WindowProto(Protocol):
    """A window."""

    dimensions: Sequence[WindowDimensionProto]


class DotDimensionNumbers(Protocol):
    """The dimensions of a dot."""

    lhs_contracting_dimensions: Sequence[int]
    rhs_contracting_dimensions: Sequence[int]
    lhs_batch_dimensions: Sequence[int]
    rhs_batch_dimensions: Sequence[int]


class ConvolutionDimensionNumbers(Protocol):
    """The dimensions of a convolution."""

    input_batch_dimension: int
    input_feature_dimension: int
    input_spatial_dimensions: Sequence[int]
    kernel_input_feature_dimension: int
    kernel_output_feature_dimension: int
    kernel_spatial_dimensions: Sequence[int]
    output_batch_dimension: int
    output_feature_dimension: int
    output_spatial_dimensions: Sequence[int]


class GatherDimensionNumbers(Protocol):
    """The dimensions of a gather."""

    offset_dims: Sequence[int]
    collapsed_slice_dims: Sequence[int]
    start_index_map: Sequence[int]
    index_vector_dim: int
    operand_batching_dims: Sequence[int]
    start_indices_batching_dims: Sequence[int]


class ScatterDimensionNumbers(Protocol):
    """The dimensions of a scatter."""

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]
    index_vector_dim: int
    input_batching_dims: Sequence[int]
    scatter_indices_batching_dims: Sequence[int]


class SliceBounds(Protocol):
    """A slice along one dimension."""

    start: int
    limit: int
    stride: int


class PaddingConfigDimension(Protocol):
    """The padding of one dimension."""

    edge_padding_low: int
    edge_padding_high: int
    interior_padding: int


class PaddingConfig(Protocol):
    """The padding of an array."""

    dimensions: Sequence[PaddingConfigDimension]


class TriangularSolveProto(Protocol):
    """The options of a triangular-solve."""

    left_side: bool
    lower: bool
    unit_diagonal: bool
    transpose_a: int


class CholeskyOptions(Protocol):
    """The options of a cholesky."""

    lower: bool


class ReplicaIds(Protocol):
    """Replicas that work together."""

    replica_ids: Sequence[int]


class SourceTarget(Protocol):
    """The ends of a transfer."""

    source: int
    target: int


class InstructionProto(Protocol):
    """An instruction: xla.HloInstructionProto."""

    id: int
    name: str
    opcode: str
    shape: ShapeProto
    metadata: OpMetadata
    literal: LiteralProto
    operand_ids: Sequence[int]
    called_computation_ids: Sequence[int]
    dimensions: Sequence[int]
    window: WindowProto
    dot_dimension_numbers: DotDimensionNumbers
    convolution_dimension_numbers: ConvolutionDimensionNumbers
    feature_group_count: int
    batch_group_count: int
    gather_dimension_numbers: GatherDimensionNumbers
    gather_slice_sizes: Sequence[int]
    scatter_dimension_numbers: ScatterDimensionNumbers
    slice_dimensions: Sequence[SliceBounds]
    dynamic_slice_sizes: Sequence[int]
    padding_config: PaddingConfig
    triangular_solve_options: TriangularSolveProto
    cholesky_options: CholeskyOptions
    distribution: int
    rng_algorithm: int
    backend_config: bytes
    fft_length: Sequence[int]
    replica_groups: Sequence[ReplicaIds]
    source_target_pairs: Sequence[SourceTarget]


class ComputationProto(Protocol):
    """A computation: xla.HloComputationProto."""

    id: int
    name: str
    instructions: Sequence[InstructionProto]
    root_id: int


class AliasEntry(Protocol):
    """A parameter whose buffer a result takes."""

    parameter_number: int
    output_shape_index: Sequence[int]


class InputOutputAlias(Protocol):
    """All aliases."""

    entries: Iterable[AliasEntry]


class ModuleProto(Protocol):
    """A module: xla.HloModuleProto."""

    name: str
    computations: Sequence[ComputationProto]
    entry_computation_id: int
    input_output_alias: InputOutputAlias
