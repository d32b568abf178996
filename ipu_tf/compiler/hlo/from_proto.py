"""Reads the output of XLA's front end: turns an HloModuleProto into a `Module`.

Reads protos only by their fields, so it does not need TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, cast

from ipu_tf.compiler.hlo import literal
from ipu_tf.compiler.hlo.attributes import (
    Attributes,
    ConvolutionDimensions,
    DotDimensions,
    GatherDimensions,
    PaddingDimension,
    ScatterDimensions,
    SliceDimension,
    TriangularSolveOptions,
    Window,
    WindowDimension,
)
from ipu_tf.compiler.hlo.module import (
    Array,
    Computation,
    Instruction,
    Module,
    Parameter,
    TupleType,
    Type,
)
from ipu_tf.compiler.hlo.proto_fields import (
    ComputationProto,
    InstructionProto,
    ModuleProto,
    ShapeProto,
)

Reader: TypeAlias = Callable[[InstructionProto], object]

# Numbers of xla.PrimitiveType, https://github.com/openxla/xla/blob/main/xla/xla_data.proto.
_DTYPES = {
    1: "pred", 2: "s8", 3: "s16", 4: "s32", 5: "s64", 6: "u8", 7: "u16", 8: "u32", 9: "u64",
    10: "f16", 11: "f32", 12: "f64", 15: "c64", 16: "bf16", 17: "token", 18: "c128", 19: "f8e5m2",
    20: "f8e4m3", 28: "f8e4m3",
}  # fmt: skip
_TUPLE = 13
_NO_TRANSPOSE = (0, 1)  # TriangularSolveOptions.Transpose: invalid (unset), none
_RNG_ALGORITHMS = ("default", "three_fry", "philox")  # xla.RandomAlgorithm
_DISTRIBUTIONS = ("invalid", "uniform", "normal")  # xla.RandomDistribution


class UnsupportedType(ValueError):
    """The machine does not support an instruction's element type."""


def from_proto(proto: ModuleProto) -> Module:
    """Returns the module of an HloModuleProto.

    Parameters are inputs, named after their instructions; those that an output aliases record it.
    The code that traced the function knows more and replaces `Module.parameters`.

    Args:
        proto: An `HloModuleProto`.

    Raises:
        UnsupportedType: An instruction has an element type that is not in `DTYPE_BITS`.
    """
    names = {computation.id: computation.name for computation in proto.computations}
    reader = _ComputationReader(names)
    computations = {c.name: reader(c) for c in proto.computations}
    entry = names[proto.entry_computation_id]
    updates = {
        alias.parameter_number: alias.output_shape_index[0] if alias.output_shape_index else 0
        for alias in proto.input_output_alias.entries
    }
    inputs = (i for i in computations[entry] if i.opcode == "parameter")
    by_number = sorted(inputs, key=lambda i: i.attributes["parameter_number"])
    parameters = tuple(
        Parameter(name=instruction.name, role="input", updated_by=updates.get(number))
        for number, instruction in enumerate(by_number)
    )
    return Module(name=proto.name, computations=computations, entry=entry, parameters=parameters)


class _ComputationReader:
    """Reads the computations of one module; instructions' names become unique in it.

    Args:
        computations: Names of the computations by their ids.
    """

    def __init__(self, computations: Mapping[int, str]) -> None:
        self._computations = computations
        self._unique_names: set[str] = set()
        self._types: dict[bytes, Type] = {}

    def __call__(self, proto: ComputationProto) -> Computation:
        names = {
            instruction.id: self._unique(instruction.name) for instruction in proto.instructions
        }
        instructions = tuple(
            self._instruction(instruction, names) for instruction in proto.instructions
        )
        return Computation(name=proto.name, instructions=instructions, root=names[proto.root_id])

    def _unique(self, name: str) -> str:
        unique, count = name, 1
        while unique in self._unique_names:
            unique, count = f"{name}.{count}", count + 1
        self._unique_names.add(unique)
        return unique

    def _instruction(self, proto: InstructionProto, names: Mapping[int, str]) -> Instruction:
        opcode, metadata = proto.opcode, proto.metadata
        type_ = self._type(proto.shape, proto)
        attributes = {key: reader(proto) for key, reader in _ATTRIBUTES.get(opcode, {}).items()}
        if opcode == "constant" and isinstance(type_, Array):
            value = literal.from_proto(proto.literal, type_)
            if value is not None:
                attributes["literal"] = value
        return Instruction(
            name=names[proto.id],
            opcode=opcode,
            type=type_,
            operands=tuple([names[operand] for operand in proto.operand_ids]),
            computations=tuple([self._computations[c] for c in proto.called_computation_ids]),
            attributes=cast("Attributes", attributes),
            op_name=metadata.op_name,
            op_type=metadata.op_type,
        )

    def _type(self, shape: ShapeProto, instruction: InstructionProto) -> Type:
        key = shape.SerializeToString()
        type_ = self._types.get(key)
        if type_ is None:
            type_ = self._types[key] = _read_type(shape, instruction)
        return type_


def _read_type(shape: ShapeProto, instruction: InstructionProto) -> Type:
    if shape.element_type == _TUPLE:
        return TupleType(tuple(_read_type(part, instruction) for part in shape.tuple_shapes))
    dtype = _DTYPES.get(shape.element_type)
    if dtype is None:
        raise UnsupportedType(
            f"'{instruction.name}' ({instruction.opcode}, from op "
            f"'{instruction.metadata.op_name or 'unknown'}') has elements of a type that the IPU "
            "does not have; cast to a type of at most 32 bits. Received: XLA element type "
            f"{shape.element_type}."
        )
    return Array(dtype, tuple(shape.dimensions))


def _ints(values: Iterable[int]) -> tuple[int, ...]:
    return tuple(values)


def _window(proto: InstructionProto) -> Window:
    return Window(
        dimensions=tuple(
            WindowDimension(
                size=d.size,
                stride=d.stride,
                padding_low=d.padding_low,
                padding_high=d.padding_high,
                window_dilation=d.window_dilation,
                base_dilation=d.base_dilation,
                window_reversal=d.window_reversal,
            )
            for d in proto.window.dimensions
        )
    )


def _dot(proto: InstructionProto) -> DotDimensions:
    numbers = proto.dot_dimension_numbers
    return DotDimensions(
        lhs_contracting=_ints(numbers.lhs_contracting_dimensions),
        rhs_contracting=_ints(numbers.rhs_contracting_dimensions),
        lhs_batch=_ints(numbers.lhs_batch_dimensions),
        rhs_batch=_ints(numbers.rhs_batch_dimensions),
    )


def _convolution(proto: InstructionProto) -> ConvolutionDimensions:
    numbers = proto.convolution_dimension_numbers
    return ConvolutionDimensions(
        input_batch=numbers.input_batch_dimension,
        input_feature=numbers.input_feature_dimension,
        input_spatial=_ints(numbers.input_spatial_dimensions),
        kernel_input_feature=numbers.kernel_input_feature_dimension,
        kernel_output_feature=numbers.kernel_output_feature_dimension,
        kernel_spatial=_ints(numbers.kernel_spatial_dimensions),
        output_batch=numbers.output_batch_dimension,
        output_feature=numbers.output_feature_dimension,
        output_spatial=_ints(numbers.output_spatial_dimensions),
    )


def _gather(proto: InstructionProto) -> GatherDimensions:
    numbers = proto.gather_dimension_numbers
    return GatherDimensions(
        offset_dims=_ints(numbers.offset_dims),
        collapsed_slice_dims=_ints(numbers.collapsed_slice_dims),
        start_index_map=_ints(numbers.start_index_map),
        index_vector_dim=numbers.index_vector_dim,
        operand_batching_dims=_ints(numbers.operand_batching_dims),
        start_indices_batching_dims=_ints(numbers.start_indices_batching_dims),
    )


def _scatter(proto: InstructionProto) -> ScatterDimensions:
    numbers = proto.scatter_dimension_numbers
    return ScatterDimensions(
        update_window_dims=_ints(numbers.update_window_dims),
        inserted_window_dims=_ints(numbers.inserted_window_dims),
        scatter_dims_to_operand_dims=_ints(numbers.scatter_dims_to_operand_dims),
        index_vector_dim=numbers.index_vector_dim,
        input_batching_dims=_ints(numbers.input_batching_dims),
        scatter_indices_batching_dims=_ints(numbers.scatter_indices_batching_dims),
    )


def _slices(proto: InstructionProto) -> tuple[SliceDimension, ...]:
    return tuple(
        SliceDimension(start=d.start, limit=d.limit, stride=d.stride or 1)
        for d in proto.slice_dimensions
    )


def _padding(proto: InstructionProto) -> tuple[PaddingDimension, ...]:
    return tuple(
        PaddingDimension(
            low=d.edge_padding_low, high=d.edge_padding_high, interior=d.interior_padding
        )
        for d in proto.padding_config.dimensions
    )


def _triangular_solve(proto: InstructionProto) -> TriangularSolveOptions:
    options = proto.triangular_solve_options
    return TriangularSolveOptions(
        left_side=options.left_side,
        lower=options.lower,
        unit_diagonal=options.unit_diagonal,
        transpose=options.transpose_a not in _NO_TRANSPOSE,
    )


def _field(name: str) -> Reader:
    return lambda proto: getattr(proto, name)


def _dimensions(proto: InstructionProto) -> tuple[int, ...]:
    return tuple(proto.dimensions)


_DIMENSIONS: Mapping[str, Reader] = {"dimensions": _dimensions}
_CHANNEL: Mapping[str, Reader] = {
    "replica_groups": lambda proto: tuple(_ints(g.replica_ids) for g in proto.replica_groups)
}

_ATTRIBUTES: Mapping[str, Mapping[str, Reader]] = {
    "parameter": {"parameter_number": _field("parameter_number")},
    "get-tuple-element": {"tuple_index": _field("tuple_index")},
    "dot": {"dot_dimension_numbers": _dot},
    "convolution": {
        "window": _window,
        "convolution_dimension_numbers": _convolution,
        "feature_group_count": lambda proto: proto.feature_group_count or 1,
        "batch_group_count": lambda proto: proto.batch_group_count or 1,
    },
    "reduce-window": {"window": _window},
    "select-and-scatter": {"window": _window},
    "broadcast": _DIMENSIONS,
    "transpose": _DIMENSIONS,
    "reduce": _DIMENSIONS,
    "reverse": _DIMENSIONS,
    "concatenate": _DIMENSIONS,
    "iota": _DIMENSIONS,
    "map": _DIMENSIONS,
    "sort": {**_DIMENSIONS, "is_stable": _field("is_stable")},
    "slice": {"slice_dimensions": _slices},
    "dynamic-slice": {"dynamic_slice_sizes": lambda proto: _ints(proto.dynamic_slice_sizes)},
    "pad": {"padding_config": _padding},
    "compare": {"comparison_direction": _field("comparison_direction")},
    "gather": {
        "gather_dimension_numbers": _gather,
        "gather_slice_sizes": lambda proto: _ints(proto.gather_slice_sizes),
        "indices_are_sorted": _field("indices_are_sorted"),
    },
    "scatter": {
        "scatter_dimension_numbers": _scatter,
        "indices_are_sorted": _field("indices_are_sorted"),
        "unique_indices": _field("unique_indices"),
    },
    "rng": {"distribution": lambda proto: _DISTRIBUTIONS[proto.distribution]},
    "rng-bit-generator": {"rng_algorithm": lambda proto: _RNG_ALGORITHMS[proto.rng_algorithm]},
    "custom-call": {
        "custom_call_target": _field("custom_call_target"),
        "backend_config": lambda proto: proto.backend_config.decode(errors="replace"),
    },
    "cholesky": {"lower": lambda proto: proto.cholesky_options.lower},
    "triangular-solve": {"triangular_solve_options": _triangular_solve},
    "topk": {"k": _field("k"), "largest": _field("largest")},
    "fft": {"fft_length": lambda proto: _ints(proto.fft_length)},
    "reduce-precision": {
        "exponent_bits": _field("exponent_bits"),
        "mantissa_bits": _field("mantissa_bits"),
    },
    "batch-norm-training": {"epsilon": _field("epsilon"), "feature_index": _field("feature_index")},
    "batch-norm-inference": {
        "epsilon": _field("epsilon"),
        "feature_index": _field("feature_index"),
    },
    "batch-norm-grad": {"epsilon": _field("epsilon"), "feature_index": _field("feature_index")},
    "all-reduce": _CHANNEL,
    "all-gather": {**_CHANNEL, **_DIMENSIONS},
    "reduce-scatter": {**_CHANNEL, **_DIMENSIONS},
    "all-to-all": _CHANNEL,
    "collective-permute": {
        "source_target_pairs": lambda proto: tuple(
            (pair.source, pair.target) for pair in proto.source_target_pairs
        )
    },
}
"""The fields to read of an instruction, by opcode; a program does not need the others."""
