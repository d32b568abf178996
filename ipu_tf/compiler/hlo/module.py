"""HLO as frozen values: the output of XLA's front end for a traced function.

Keeps only the fields that a device program needs. Opcodes and attributes have HLO's own names.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ipu_tf.compiler.hlo.attributes import Attributes
from ipu_tf.machine.dtypes import DTYPE_BITS
from ipu_tf.tile_program.phase import Phase

LOSS = "loss"
"""Stands for a layer in instructions that compute the loss of a model."""

METRICS = "metrics"
"""Stands for a layer in instructions that compute metrics."""

Role: TypeAlias = Literal[
    "weight",
    "optimizer_state",
    "state",
    "input",
    "constant",
    "host",
    "link",
    "accumulator",
    "held",
    "fifo",
]
"""The role of an entry parameter.

weight: a trainable variable. optimizer_state: a slot or counter of an optimizer. state: another
variable (metrics, moving statistics, seeds). input: an argument or an element of an
iterator. constant: a captured tensor. host: the result of a host call. Stages of a pipeline have
further roles: link: a value from another IPU. accumulator: a sum of gradients. held: an
accumulator that another stage of the IPU holds. fifo: values that wait between a stage's passes.
"""


@dataclass(frozen=True, slots=True)
class Array:
    """The type of an array: `dtype` is HLO's name, such as "f32"; `dims` are static."""

    dtype: str
    dims: tuple[int, ...] = ()

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.dims)

    @property
    def bytes(self) -> int:
        """Bytes in tile memory."""
        return self.elements * DTYPE_BITS[self.dtype] // 8

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


@dataclass(frozen=True, slots=True)
class TupleType:
    """The type of a tuple."""

    parts: tuple[Type, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all arrays in it."""
        return sum(part.bytes for part in self.parts)

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.parts))})"


Type: TypeAlias = Array | TupleType


class NotAnArray(TypeError):
    """An instruction has a tuple where its reader takes an array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One operation.

    Attributes:
        name: Unique in the module, such as "dot.12".
        opcode: HLO's opcode, such as "dot". "host-call" is an op that runs on the host, "infeed"
            a read of an iterator in a loop.
        type: Type of the result.
        operands: Names of instructions of the same computation.
        computations: Names of the computations it calls, in HLO's order: a while's body, then its
            condition; a select-and-scatter's select, then its scatter.
        attributes: HLO's other fields by their name, as plain values: "dimensions" (tuple of int),
            "window", "dot_dimension_numbers" and so on as frozen dataclasses or dicts of
            `ipu_tf.compiler.hlo.attributes`; "parameter_number", "tuple_index",
            "trip_count" (of a while, where known; "mean_trip_count" is how often it runs in how
            many runs of the program around it, "max_trip_count" is a bound), "gradient_of" (of a
            while that is the gradient of another: the body of that one), "literal" (a NumPy array,
            small ones only).
        op_name: Name of the TensorFlow op it comes from.
        op_type: Type of that op, such as "Conv2DBackpropInput".
        layer: Path of the Keras layer it works for, such as "sequential/dense"; "" for none.
        phase: Part of the training step.
        recomputed: Whether it computes a value of the forward pass again.
        after: Names of instructions before it that run first, though it does not read them.
    """

    name: str
    opcode: str
    type: Type
    operands: tuple[str, ...] = ()
    computations: tuple[str, ...] = ()
    attributes: Attributes = field(default_factory=Attributes)
    op_name: str = ""
    op_type: str = ""
    layer: str = ""
    phase: Phase = "forward"
    recomputed: bool = False
    after: tuple[str, ...] = ()

    @property
    def array(self) -> Array:
        """The type of the result, which must be one array.

        Raises:
            NotAnArray: It is a tuple.
        """
        if not isinstance(self.type, Array):
            raise NotAnArray(f"The result of '{self.name}' must be one array, not {self.type}.")
        return self.type

    def replace(self, **changes: object) -> Instruction:
        """Returns the instruction with some fields changed."""
        replaced: Callable[..., Instruction] = dataclasses.replace
        return replaced(self, **changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """Instructions in an order in which operands come first.

    Attributes:
        name: Unique in the module.
        instructions: All of them, parameters included.
        root: Name of the instruction whose result is the computation's.
    """

    name: str
    instructions: tuple[Instruction, ...]
    root: str
    _by_name: dict[str, Instruction] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _users: dict[str, list[Instruction]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def by_name(self) -> Mapping[str, Instruction]:
        """Returns the instructions by their names."""
        if not self._by_name:
            self._by_name.update((one.name, one) for one in self.instructions)
        return self._by_name

    @property
    def users(self) -> Mapping[str, Sequence[Instruction]]:
        """The readers of each instruction, in order; one that reads it twice is listed once."""
        if not self._users:
            readers: dict[str, list[Instruction]] = {}
            for instruction in self.instructions:
                readers.setdefault(instruction.name, [])
                for operand in dict.fromkeys(instruction.operands):
                    readers.setdefault(operand, []).append(instruction)
            self._users.update(readers)
        return self._users

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """An entry parameter.

    Attributes:
        name: Path of the variable, or name of the argument.
        role: Its role.
        layer: Path of the Keras layer that owns it; "" for none.
        updated_by: Index of the part of the entry's result tuple that becomes its new value;
            None if it is only read.
    """

    name: str
    role: Role
    layer: str = ""
    updated_by: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A whole function.

    Attributes:
        name: Name of the function.
        computations: By name.
        entry: Name of the computation that is the function.
        parameters: The entry's parameters, by parameter number.
        links: Parts of the entry's result tuple for other IPUs: they do not go to the host.
    """

    name: str
    computations: Mapping[str, Computation]
    entry: str
    parameters: tuple[Parameter, ...]
    links: frozenset[int] = frozenset()

    @property
    def entry_computation(self) -> Computation:
        """The computation that is the function."""
        return self.computations[self.entry]

    def replace(self, **changes: object) -> Module:
        """Returns the module with some fields changed."""
        replaced: Callable[..., Module] = dataclasses.replace
        return replaced(self, **changes)
