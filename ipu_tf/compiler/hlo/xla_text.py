"""Reads the text of an HLO module as XLA prints it, and frameworks above XLA such as JAX dump it.

    HloModule jit_f, input_output_alias={ {0}: (1, {}, may-alias) }

    ENTRY %main.4 (x: f32[4,8], w: f32[8,2]) -> f32[4,2] {
      %x = f32[4,8]{1,0} parameter(0)
      %w = f32[8,2]{1,0} parameter(1)
      ROOT %dot.3 = f32[4,2]{1,0} dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    }

Gives the same module as `from_proto` does for the module's proto. A fusion, which XLA makes for its
own machines, becomes a call of its computation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, TypeVar, cast

import numpy as np

from ipu_tf.compiler.hlo import attribute_text, literal
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
)
from ipu_tf.compiler.hlo.from_proto import UnsupportedType
from ipu_tf.compiler.hlo.module import (
    Array,
    Computation,
    Instruction,
    Module,
    Parameter,
    TupleType,
    Type,
)
from ipu_tf.compiler.hlo.text import ParseError
from ipu_tf.machine.dtypes import DTYPE_BITS

Texts: TypeAlias = Mapping[str, str]
"""The attributes of an instruction as text, by XLA's names."""

Reader: TypeAlias = Callable[[Texts], object]
_T = TypeVar("_T")

_MODULE = re.compile(r"HloModule\s+([^\s,]+)")
_ALIASES = re.compile(r"\{\s*(\d*)[\s\d,]*\}:\s*\((\d+),")
_COMPUTATION = re.compile(r"(ENTRY\s+)?%?([^\s(]+)\s*(\(.*)?\{$")
_INSTRUCTION = re.compile(r"(ROOT\s+)?%?(\S+)\s+=\s+(.*)$")
_OPCODE = re.compile(r"(?<![\w%.])([a-z][a-z0-9-]*)\(")
_COMMENT = re.compile(r"/\*.*?\*/")
_ARRAY = re.compile(r"([a-z]\w*)\[([^\]]*)\]")
_SYNONYMS = {"f8e4m3fn": "f8e4m3"}
_CALLS = (
    "body",
    "condition",
    "select",
    "scatter",
    "to_apply",
    "calls",
    "true_computation",
    "false_computation",
    "branch_computations",
)
"""Texts that name computations, in the order of an instruction's computations."""

_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_NO_TRANSPOSE = "NO_TRANSPOSE"


def parse_xla(text: str) -> Module:
    """Returns the module of a text.

    Parameters are inputs, named after their instructions; those that an output aliases record it.

    Raises:
        ParseError: The text is no module; the message has the line.
        UnsupportedType: An instruction has an element type that the machine does not have.
    """
    reader = _Reader()
    number = 0
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            reader.line(_COMMENT.sub("", line).strip())
        except UnsupportedType:
            raise
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise ParseError(
                f"Line {number} is no line of a module in HLO text: {error} Received: "
                f"{line.strip()[:200]!r}."
            ) from error
    return reader.module(number)


class _Reader:
    """Reads a module line by line; instructions' names become unique in it."""

    def __init__(self) -> None:
        self._name = ""
        self._aliases: dict[int, int] = {}
        self._computations: dict[str, Computation] = {}
        self._entry: str | None = None
        self._unique_names: set[str] = set()
        self._current: str | None = None
        self._names: dict[str, str] = {}
        self._instructions: list[Instruction] = []
        self._root = ""

    def line(self, line: str) -> None:
        """Reads a line.

        Raises:
            ValueError: It is no line of a module.
        """
        if self._current is not None:
            if line.startswith("}"):
                self._close()
            elif line:
                self._instruction(line)
        elif line.startswith("HloModule"):
            self._head(line)
        elif match := _COMPUTATION.match(line):
            self._current = match[2]
            if match[1]:
                self._entry = match[2]

    def module(self, lines: int) -> Module:
        """Returns the module.

        Raises:
            ParseError: The text ended too early, or has no module.
        """
        if self._current is not None:
            raise ParseError(
                f"The text ends at line {lines}, inside of computation '{self._current}'. It "
                "is incomplete: dump the module again."
            )
        if self._entry is None or not self._name:
            raise ParseError(
                "A module in HLO text begins with 'HloModule' and has a computation marked ENTRY. "
                "Write it with `.as_text(dialect='hlo')` of a lowered JAX function, or with "
                "XLA_FLAGS=--xla_dump_to."
            )
        entry = self._computations[self._entry]
        inputs = [i for i in entry if i.opcode == "parameter"]
        inputs.sort(key=lambda i: i.attributes["parameter_number"])
        parameters = tuple(
            Parameter(name=one.name, role="input", updated_by=self._aliases.get(number))
            for number, one in enumerate(inputs)
        )
        return Module(
            name=self._name,
            computations=self._computations,
            entry=self._entry,
            parameters=parameters,
        )

    def _head(self, line: str) -> None:
        match = _MODULE.match(line)
        if match is None:
            raise ValueError("A module has a name.")
        self._name = match[1]
        _, _, aliases = line.partition("input_output_alias=")
        pairs = _ALIASES.findall(aliases.partition("entry_computation_layout")[0])
        self._aliases = {int(parameter): int(output or 0) for output, parameter in pairs}

    def _close(self) -> None:
        name = self._current or ""
        if not self._instructions:
            raise ValueError(f"Computation '{name}' is empty.")
        self._computations[name] = Computation(
            name=name,
            instructions=tuple(self._instructions),
            root=self._root or self._instructions[-1].name,
        )
        self._current, self._names, self._instructions, self._root = None, {}, [], ""

    def _instruction(self, line: str) -> None:
        head = _INSTRUCTION.match(line)
        call = _OPCODE.search(line, head.start(3)) if head else None
        if head is None or call is None:
            raise ValueError("An instruction is `name = type opcode(operands), key=value`.")
        opcode, inside, rest = call[1], *_arguments(line, call.end() - 1)
        texts = dict(_pair(part) for part in attribute_text.split(rest) if "=" in part)
        metadata = dict(
            _pair(part)
            for part in attribute_text.split(texts.get("metadata", "{}")[1:-1], " ")
            if "=" in part
        )
        type_ = _type(line[head.start(3) : call.start()].strip(), head[2], opcode, metadata)
        name = self._unique(head[2])
        attributes = {key: reader(texts) for key, reader in _ATTRIBUTES.get(opcode, {}).items()}
        operands: tuple[str, ...] = ()
        if opcode == "parameter":
            attributes["parameter_number"] = int(inside)
        elif opcode == "constant":
            attributes |= _literal(inside, type_)
        else:
            operands = tuple(
                self._names[part.split()[-1].lstrip("%")] for part in attribute_text.split(inside)
            )
        if opcode == "while" and (trips := _TRIPS.search(texts.get("backend_config", ""))):
            attributes["trip_count"] = int(trips[1])
        self._root = name if head[1] else self._root
        self._instructions.append(
            Instruction(
                name=name,
                opcode="call" if opcode == "fusion" else opcode,
                type=type_,
                operands=operands,
                computations=tuple(_callees(texts)),
                attributes=cast("Attributes", attributes),
                op_name=_unquoted(metadata.get("op_name", "")),
                op_type=_unquoted(metadata.get("op_type", "")),
            )
        )

    def _unique(self, name: str) -> str:
        unique, count = name, 1
        while unique in self._unique_names:
            unique, count = f"{name}.{count}", count + 1
        self._unique_names.add(unique)
        self._names[name] = unique
        return unique


def _arguments(line: str, opening: int) -> tuple[str, str]:
    """Returns what is in the parentheses that open at an index, and what follows them."""
    depth, quoted = 0, False
    for index in range(opening, len(line)):
        quoted ^= line[index] == '"'
        if not quoted:
            depth += {"(": 1, ")": -1}.get(line[index], 0)
        if depth == 0:
            return line[opening + 1 : index], line[index + 1 :].lstrip(", ")
    raise ValueError("A parenthesis is not closed.")


def _pair(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key.strip(), value.strip()


def _unquoted(text: str) -> str:
    return text[1:-1].replace('\\"', '"') if text.startswith('"') else text


def _callees(texts: Texts) -> Iterable[str]:
    for key in _CALLS:
        for name in attribute_text.split(texts.get(key, "").strip("{}")):
            yield name.lstrip("%")


def _type(text: str, name: str, opcode: str, metadata: Texts) -> Type:
    if text.startswith("("):
        parts = attribute_text.split(text[1 : text.rindex(")")])
        return TupleType(tuple(_type(part, name, opcode, metadata) for part in parts))
    match = _ARRAY.match(text)
    if match is None:
        raise ValueError(f"'{text}' is no type such as f32[2,3].")
    dtype = _SYNONYMS.get(match[1], match[1])
    if dtype not in DTYPE_BITS:
        op_name = _unquoted(metadata.get("op_name", "")) or "unknown"
        raise UnsupportedType(
            f"'{name}' ({opcode}, from op '{op_name}') has elements of a type that the IPU does "
            f"not have; cast to a type of at most 32 bits. Received: XLA element type {match[1]}."
        )
    sizes = (size.strip().removeprefix("<=") for size in match[2].split(","))
    return Array(dtype, tuple(int(size) for size in sizes if size))


def _literal(inside: str, type_: Type) -> dict[str, object]:
    """Returns the value of a constant, if it is printed and kept."""
    if not isinstance(type_, Array) or "..." in inside or type_.elements > literal.MAX_ELEMENTS:
        return {}
    if type_.dtype.startswith(("f8", "c")):
        return {}
    return {"literal": literal.parse(re.sub("[{}]", "", inside), type_)}


def _numbers(key: str) -> Callable[[Texts], tuple[int, ...]]:
    def read(texts: Texts) -> tuple[int, ...]:
        parts = texts.get(key, "").strip("{} ").split(",")
        return tuple(int(part) for part in parts if part.strip())

    return read


def _groups(key: str) -> Callable[[Texts], tuple[tuple[int, ...], ...]]:
    def read(texts: Texts) -> tuple[tuple[int, ...], ...]:
        groups = re.findall(r"\{([\d,\s]+)\}", texts.get(key, ""))
        return tuple(tuple(int(one) for one in group.split(",")) for group in groups)

    return read


def _plain(key: str, default: _T) -> Callable[[Texts], _T]:
    def read(texts: Texts) -> _T:
        return cast("_T", attribute_text.parse("", texts[key])) if key in texts else default

    return read


def _word(key: str, prefix: str = "") -> Callable[[Texts], str]:
    return lambda texts: _unquoted(texts.get(key, "")).removeprefix(prefix)


def _epsilon(texts: Texts) -> float:
    return float(np.float32(texts.get("epsilon", 0)))  # The number that the text rounds.


def _window(texts: Texts) -> Window:
    return cast("Window", attribute_text.parse("window", texts.get("window", "{}")))


def _labels(texts: Texts) -> ConvolutionDimensions:
    labels = attribute_text.parse("convolution_dimension_numbers", texts["dim_labels"])
    return cast("ConvolutionDimensions", labels)


def _dot(texts: Texts) -> DotDimensions:
    return DotDimensions(
        lhs_contracting=_numbers("lhs_contracting_dims")(texts),
        rhs_contracting=_numbers("rhs_contracting_dims")(texts),
        lhs_batch=_numbers("lhs_batch_dims")(texts),
        rhs_batch=_numbers("rhs_batch_dims")(texts),
    )


def _gather(texts: Texts) -> GatherDimensions:
    return GatherDimensions(
        offset_dims=_numbers("offset_dims")(texts),
        collapsed_slice_dims=_numbers("collapsed_slice_dims")(texts),
        start_index_map=_numbers("start_index_map")(texts),
        index_vector_dim=int(texts.get("index_vector_dim", 0)),
        operand_batching_dims=_numbers("operand_batching_dims")(texts),
        start_indices_batching_dims=_numbers("start_indices_batching_dims")(texts),
    )


def _scatter(texts: Texts) -> ScatterDimensions:
    return ScatterDimensions(
        update_window_dims=_numbers("update_window_dims")(texts),
        inserted_window_dims=_numbers("inserted_window_dims")(texts),
        scatter_dims_to_operand_dims=_numbers("scatter_dims_to_operand_dims")(texts),
        index_vector_dim=int(texts.get("index_vector_dim", 0)),
        input_batching_dims=_numbers("input_batching_dims")(texts),
        scatter_indices_batching_dims=_numbers("scatter_indices_batching_dims")(texts),
    )


def _slices(texts: Texts) -> tuple[SliceDimension, ...]:
    parts = re.findall(r"\[(\d+):(\d+)(?::(\d+))?\]", texts.get("slice", ""))
    return tuple(
        SliceDimension(start=int(start), limit=int(limit), stride=int(stride or 1))
        for start, limit, stride in parts
    )


def _padding(texts: Texts) -> tuple[PaddingDimension, ...]:
    dimensions = []
    for part in texts.get("padding", "").split("x"):
        if part:
            low, high, *interior = (int(number) for number in part.split("_"))
            dimensions.append(PaddingDimension(low=low, high=high, interior=sum(interior)))
    return tuple(dimensions)


def _triangular_solve(texts: Texts) -> TriangularSolveOptions:
    return TriangularSolveOptions(
        left_side=_plain("left_side", False)(texts),
        lower=_plain("lower", False)(texts),
        unit_diagonal=_plain("unit_diagonal", False)(texts),
        transpose=texts.get("transpose_a", _NO_TRANSPOSE) != _NO_TRANSPOSE,
    )


_DIMENSIONS: Mapping[str, Reader] = {"dimensions": _numbers("dimensions")}
_CHANNEL: Mapping[str, Reader] = {"replica_groups": _groups("replica_groups")}
_NORM = {"epsilon": _epsilon, "feature_index": _plain("feature_index", 0)}

_ATTRIBUTES: Mapping[str, Mapping[str, Reader]] = {
    "get-tuple-element": {"tuple_index": _plain("index", 0)},
    "dot": {"dot_dimension_numbers": _dot},
    "convolution": {
        "window": _window,
        "convolution_dimension_numbers": _labels,
        "feature_group_count": _plain("feature_group_count", 1),
        "batch_group_count": _plain("batch_group_count", 1),
    },
    "reduce-window": {"window": _window},
    "select-and-scatter": {"window": _window},
    "broadcast": _DIMENSIONS,
    "transpose": _DIMENSIONS,
    "reduce": _DIMENSIONS,
    "reverse": _DIMENSIONS,
    "concatenate": _DIMENSIONS,
    "iota": {"dimensions": _numbers("iota_dimension")},
    "map": _DIMENSIONS,
    "sort": {**_DIMENSIONS, "is_stable": _plain("is_stable", False)},
    "slice": {"slice_dimensions": _slices},
    "dynamic-slice": {"dynamic_slice_sizes": _numbers("dynamic_slice_sizes")},
    "pad": {"padding_config": _padding},
    "compare": {"comparison_direction": _word("direction")},
    "gather": {
        "gather_dimension_numbers": _gather,
        "gather_slice_sizes": _numbers("slice_sizes"),
        "indices_are_sorted": _plain("indices_are_sorted", False),
    },
    "scatter": {
        "scatter_dimension_numbers": _scatter,
        "indices_are_sorted": _plain("indices_are_sorted", False),
        "unique_indices": _plain("unique_indices", False),
    },
    "rng": {"distribution": _word("distribution", "rng_")},
    "rng-bit-generator": {"rng_algorithm": _word("algorithm", "rng_")},
    "custom-call": {
        "custom_call_target": _word("custom_call_target"),
        "backend_config": _word("backend_config"),
    },
    "cholesky": {"lower": _plain("lower", False)},
    "triangular-solve": {"triangular_solve_options": _triangular_solve},
    "topk": {"k": _plain("k", 0), "largest": _plain("largest", False)},
    "fft": {"fft_length": _numbers("fft_length")},
    "reduce-precision": {
        "exponent_bits": _plain("exponent_bits", 0),
        "mantissa_bits": _plain("mantissa_bits", 0),
    },
    "batch-norm-training": _NORM,
    "batch-norm-inference": _NORM,
    "batch-norm-grad": _NORM,
    "all-reduce": _CHANNEL,
    "all-gather": {**_CHANNEL, **_DIMENSIONS},
    "reduce-scatter": {**_CHANNEL, **_DIMENSIONS},
    "all-to-all": _CHANNEL,
    "collective-permute": {"source_target_pairs": _groups("source_target_pairs")},
}
"""How each attribute that a program needs is read, by opcode; as `from_proto` has them."""
