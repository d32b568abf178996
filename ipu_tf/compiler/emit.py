"""Turns ordered blocks into steps, and tensors with their lifetimes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ipu_tf.compiler.activation_liveness import ActivationLiveness
from ipu_tf.compiler.blocks import Block, BufferTable, Node
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.machine.target import Target
from ipu_tf.tile_program.layouts.footprint import Footprint, add_footprint, slices
from ipu_tf.tile_program.memory import stack_bytes
from ipu_tf.tile_program.program import Category, Step, Tensor

_Tiles: TypeAlias = tuple[tuple[int, int], ...]
"""Ranges of consecutive tiles: the first of each, and how many."""


class Emission:
    """The steps of a program that is being built, and the lifetimes of its memory.

    Attributes:
        steps: The steps, in order.
        tensors: Tensors that are in memory only while one step runs.
    """

    def __init__(self, buffers: BufferTable) -> None:
        self.steps: list[Step] = []
        self.tensors: list[Tensor] = []
        self._buffers = buffers
        self._first: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._activation_liveness = ActivationLiveness(buffers)

    @property
    def kept_activations(self) -> int:
        """The most results of layers that wait for the backward pass at a time."""
        return self._activation_liveness.most(len(self.steps))

    def block(self, block: Block, repeats: int | Fraction = 1) -> None:
        """Appends a block that runs a number of times.

        Steps of a loop appear once. Values from outside that a loop reads stay live until it ends.
        """
        for index in block.order:
            self.node(block.nodes[index], repeats)

    def node(self, node: Node, repeats: int | Fraction = 1) -> None:
        """Appends a node and its bodies."""
        find = self._buffers.find
        if node.vanishes and find(node.reads[0]) == find(node.writes[0]):
            return
        first = len(self.steps)
        for body, times in node.bodies:
            self.block(body, repeats * times)
        if node.lowered.supersteps:
            self._step(node, round(repeats))
        last = max(first, len(self.steps) - 1)
        self._activation_liveness.add(node, first, last)
        # A value that a body makes is live from the step that makes it, not from the body's start.
        for buffer in node.reads if node.bodies else (*node.reads, *node.writes):
            memory = find(buffer)
            self._first.setdefault(memory, first)
            self._last[memory] = last

    def _step(self, node: Node, repeats: int) -> None:
        instruction, lowered = node.instruction, node.lowered
        index = len(self.steps)
        self.steps.append(
            Step(
                name=instruction.name,
                opcode=instruction.opcode,
                layer=instruction.layer,
                phase=instruction.phase,
                supersteps=node.supersteps,
                repeats=repeats,
                flops=lowered.flops,
                plan=lowered.plan,
                dtype=lowered.dtype,
                op_name=instruction.op_name,
                recomputed=instruction.recomputed,
            )
        )
        temporary: tuple[tuple[Category, tuple[Footprint, ...]], ...] = (
            ("scratch", (*lowered.scratch, *(node.call.scratch if node.call else ()))),
            ("exchange_buffers", lowered.exchange_buffers),
        )
        for category, footprints in temporary:
            self.tensors += [
                Tensor(
                    name=instruction.name,
                    layer=instruction.layer,
                    category=category,
                    footprint=footprint,
                    bytes=footprint.bytes,
                    first_step=index,
                    last_step=index,
                )
                for footprint in footprints
            ]

    def all_tensors(self) -> tuple[Tensor, ...]:
        """Returns the tensors of the program: always-live ones, then the others as they appear."""
        end = max(0, len(self.steps) - 1)
        always_live: list[Tensor] = []
        temporaries: list[Tensor] = []
        for number in range(len(self._buffers)):
            if self._buffers.find(number) != number:
                continue
            buffer = self._buffers[number]
            if not buffer.always_live and number not in self._first:
                continue  # It is in a branch that does not count.
            tensor = Tensor(
                name=buffer.name,
                layer=buffer.layer,
                category=buffer.category,
                footprint=buffer.footprint,
                bytes=buffer.bytes,
                first_step=0 if buffer.always_live else min(end, self._first[number]),
                last_step=end if buffer.always_live else min(end, self._last[number]),
                always_live=buffer.always_live,
            )
            (always_live if buffer.always_live else temporaries).append(tensor)
        temporaries += self.tensors
        temporaries.sort(key=lambda tensor: tensor.first_step)
        return (*always_live, *temporaries)


def program_bytes(
    nodes: Iterable[Node], buffers: BufferTable, target: Target
) -> Mapping[Category, NDArray[np.int64]]:
    """Returns the bytes of a program besides its tensors, int64[tiles] per category.

    Nodes of equal code count once, but for the copies of their calls. A tile holds a codelet once,
    if it takes part in an instruction that needs it. Exchange code counts in full on every such
    tile, though only the busiest tile needs as much.

    Args:
        nodes: The outermost nodes.
        buffers: All buffers.
        target: The chip.
    """
    zeros = np.zeros(target.tiles, np.int64)
    vertex_state, vertex_code, exchange_code = zeros.copy(), zeros.copy(), zeros.copy()
    exchange_code_bytes: dict[_Tiles, int] = {}
    codelets: dict[str, int] = {}
    tiles_of_codelets: dict[str, set[_Tiles]] = {}
    codes: set[Hashable] = set()
    for node in _with_bodies(nodes):
        lowered_parts = [node.call] if node.call else []
        if node.code is None or node.code not in codes:
            codes.add(node.code)
            lowered_parts.append(node.lowered)
        for lowered in lowered_parts:
            for footprint in lowered.vertex_state:
                add_footprint(vertex_state, footprint)
            tiles = _tiles(node, lowered, buffers)
            exchange_code_bytes[tiles] = (
                exchange_code_bytes.get(tiles, 0) + lowered.exchange_code_bytes
            )
            for name, code_bytes in lowered.code.items():
                codelets[name] = max(codelets.get(name, 0), code_bytes)
                tiles_of_codelets.setdefault(name, set()).add(tiles)
    parts_of = {tiles: _parts(tiles, target) for tiles in exchange_code_bytes}
    for tiles, code_bytes in exchange_code_bytes.items():
        for part in parts_of[tiles]:
            exchange_code[part] += code_bytes
    for name, code_bytes in codelets.items():
        present = np.zeros(target.tiles, np.bool_)
        for tiles in tiles_of_codelets[name]:
            for part in parts_of[tiles]:
                present[part] = True
        vertex_code += code_bytes * present
    stack = np.full(target.tiles, stack_bytes(target), np.int64)
    return {
        "vertex_state": vertex_state,
        "vertex_code": vertex_code,
        "exchange_code": exchange_code,
        "stack": stack,
    }


def _with_bodies(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yields nodes and all nodes of their bodies, those that do not count included."""
    for node in nodes:
        yield node
        for body in (*(body for body, _ in node.bodies), *node.idle_bodies):
            yield from _with_bodies(body.nodes)


def _tiles(node: Node, lowered: LoweredInstruction, buffers: BufferTable) -> _Tiles:
    """Returns the tiles that take part in a node.

    These are the tiles of its vertices; if it names none, those of its results, else its operands.
    """
    footprints = (
        lowered.vertex_state
        or [buffers[buffer].footprint for buffer in node.writes]
        or [buffers[buffer].footprint for buffer in node.reads]
    )
    return tuple((footprint.first_tile, footprint.tiles) for footprint in footprints)


def _parts(tiles: _Tiles, target: Target) -> tuple[slice, ...]:
    """Returns tiles as slices that do not overlap."""
    footprints = [Footprint(first_tile=first, tiles=count, tile_bytes=0) for first, count in tiles]
    if len(footprints) == 1:
        return slices(footprints[0], target.tiles)
    present = np.zeros(target.tiles + 2, np.int8)
    for footprint in footprints:
        for part in slices(footprint, target.tiles):
            present[1 + part.start : 1 + part.stop] = 1
    edges = np.flatnonzero(np.diff(present))
    return tuple(slice(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True))
