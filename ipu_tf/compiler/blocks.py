"""Lowered computations: nodes that read and write buffers, before and after they are ordered.

A block is one computation, such as the body of a loop. Its nodes run on tiles; views, tuples and
parameters are not nodes, they only tell the buffer of a value.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from ipu_tf.compiler.hlo import Instruction
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.machine.superstep import Superstep
from ipu_tf.tile_program.layouts.footprint import Footprint
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.program import Category


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """Memory for a tensor.

    Attributes:
        name: Name of the instruction that makes it, or path of a variable.
        layer: Path of its Keras layer, "" for none.
        category: Its category.
        footprint: The tiles that hold it.
        bytes: Bytes of the tensor, without padding.
        always_live: Whether its memory is never freed.
    """

    name: str
    layer: str
    category: Category
    footprint: Footprint
    bytes: int
    always_live: bool = False


class BufferTable:
    """All buffers of a program that is being built, by number; two may merge to the same memory."""

    def __init__(self) -> None:
        self._buffers: list[Buffer] = []
        self._same_as: list[int] = []

    def __len__(self) -> int:
        return len(self._buffers)

    def __getitem__(self, number: int) -> Buffer:
        return self._buffers[self.find(number)]

    def add(self, buffer: Buffer) -> int:
        """Returns the number of a new buffer."""
        self._buffers.append(buffer)
        self._same_as.append(len(self._same_as))
        return len(self._buffers) - 1

    def find(self, number: int) -> int:
        """Returns the number of a buffer's memory, after merges."""
        root = number
        while self._same_as[root] != root:
            root = self._same_as[root]
        while self._same_as[number] != root:
            self._same_as[number], number = root, self._same_as[number]
        return root

    def merge(self, number: int, *, into: int) -> None:
        """Merges a buffer into another, which keeps its name and kind."""
        self._same_as[self.find(number)] = self.find(into)

    def footprint_bytes(self, number: int) -> int:
        """Returns the bytes of a buffer on all tiles, padding included."""
        footprint = self[number].footprint
        return footprint.tiles * footprint.tile_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """An array on tiles.

    Attributes:
        placement: Its placement.
        buffer: Number of the memory it lies in; several values may share it.
        made_by: Index of the node that makes it, in its block; None if it comes from outside.
    """

    placement: Placement
    buffer: int
    made_by: int | None = None


Values: TypeAlias = tuple[Value, ...]
"""The arrays of a result, tuples flattened."""


@dataclass(slots=True, kw_only=True)
class Node:
    """The work of one instruction.

    Attributes:
        instruction: The instruction; copies that the compiler adds have one, too.
        lowered: Its supersteps and memory, without its bodies.
        reads: Buffers that it reads.
        writes: Buffers that it makes.
        fills: Buffer of the caller that it copies to; None for all other nodes.
        after: Indices of the nodes of the same block that must run before it.
        overwritable: Buffers among `reads` that are placed like `writes[0]` and read element by
            element: if no later node reads one, `writes[0]` may use its memory.
        vanishes: Whether it is a copy, so that nothing runs if it writes where it reads.
        bodies: Blocks that run in it, in order, each with its mean number of runs.
        idle_bodies: Blocks that do not count, such as the cheaper branches of a conditional: only
            their code and vertex state take memory.
        code: Identity of its vertices and exchanges, equal for nodes that share them; None for a
            node with code of its own.
        call: The copies of operands and results that its call of shared code needs; None without
            shared code.
    """

    instruction: Instruction
    lowered: LoweredInstruction
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    fills: int | None = None
    after: set[int] = field(default_factory=set)
    overwritable: tuple[int, ...] = ()
    vanishes: bool = False
    bodies: tuple[tuple[Block, int | Fraction], ...] = ()
    idle_bodies: tuple[Block, ...] = ()
    code: Hashable | None = None
    call: LoweredInstruction | None = None

    @property
    def supersteps(self) -> tuple[Superstep, ...]:
        """Its supersteps, with those of the copies for its call of shared code."""
        return (*self.lowered.supersteps, *(self.call.supersteps if self.call else ()))


@dataclass(slots=True, kw_only=True)
class Block:
    """A lowered computation.

    Attributes:
        nodes: In an order that respects `Node.after`, apart from orderings added late.
        results: The arrays of its root.
        arguments: Buffers that belong to the caller and outlive the block.
        order: Indices of the nodes in the order they run; empty until scheduled.
        peak_bytes: Most bytes live at a time on all tiles, without arguments and results.
    """

    nodes: list[Node]
    results: tuple[Value, ...]
    arguments: frozenset[int]
    order: Sequence[int] = ()
    peak_bytes: int = 0

    def cycles(self) -> int:
        """Returns the cycles of one run."""
        total: int | Fraction = 0
        for node in self.nodes:
            total += sum(superstep.total_cycles for superstep in node.supersteps)
            total += sum(times * body.cycles() for body, times in node.bodies)
        return round(total)
