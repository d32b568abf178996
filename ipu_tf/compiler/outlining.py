"""Shares the code of equal steps: vertices and exchanges work on operands in fixed places.

Tiles keep one copy of the code of equal steps, as Poplar does when it outlines repeated parts of a
graph into functions. The first step decides on the places of operands and results. A later step
calls the code; a value of its own lies in the same place as another one whose life is over by then,
and any other value (a weight, an activation that waits for the backward pass) is copied there, or
from there, for the call.

A step shares its code if the copies take little of its time, as with products; others, such as sums
of two activations, keep vertices and exchange code of their own. Codelets are shared in any case.
Copies trade time for memory, so a program that does not fit shares more. Poplar's frameworks weigh
steps likewise, products highest; the shares below are modelled.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from ipu_tf.compiler.blocks import BufferTable, Node
from ipu_tf.compiler.lowering import vertex_costs
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.stages import lower_stages
from ipu_tf.machine.target import Target
from ipu_tf.tile_program.layouts.footprint import Footprint
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.steps import ComputeStage
from ipu_tf.tile_program.traffic import Traffic

COPY_SHARES = (0.1, 0.3, 1.0)
"""Shares of a step's own cycles that copies for its call may take, in the order they are tried.
Modelled."""

_NO_COPIES = LoweredInstruction()

_CACHED_COPIES = 1 << 13

_Copied: TypeAlias = tuple[str, int, int, bool]
"""Copies that run together: their name, the first of their tiles, how many these are, and whether
the bytes come from other tiles."""


@dataclass(slots=True, kw_only=True)
class _Life:
    """The first and the last node that use some memory, by their numbers in running order."""

    first: int
    last: int


@dataclass(slots=True, kw_only=True)
class _Code:
    """Code that equal nodes share.

    Attributes:
        places: The memory in the place of every operand and result, so far.
        footprints: The tiles of these places.
    """

    places: list[int]
    footprints: list[Footprint] = field(default_factory=list)


def outline(nodes: Iterable[Node], buffers: BufferTable, target: Target, copy_share: float) -> None:
    """Marks nodes that share code, and adds the copies that their calls need.

    Args:
        nodes: The outermost nodes, in the order in which they run.
        buffers: All buffers.
        target: The chip.
        copy_share: Share of a step's own cycles that the copies for its call may take.
    """
    in_order = list(_in_order(nodes))
    lives = _lives(in_order, buffers)
    codes: dict[Hashable, _Code] = {}
    for node in in_order:
        node.code = node.call = None
        if not node.lowered.supersteps:
            continue
        key = _code_key(node)
        memories = _memories(node, buffers)
        footprints = [buffers[memory].footprint for memory in memories]
        code = codes.get(key)
        if code is None:
            codes[key] = _Code(places=memories, footprints=footprints)
            node.code = key
            continue
        copied_places = [
            place
            for place, (memory, there) in enumerate(zip(memories, code.places, strict=True))
            if memory != there and lives[memory].first <= lives[there].last
        ]
        copies = _copies(node, copied_places, footprints, code, buffers, target)
        own_cycles = sum(superstep.total_cycles for superstep in node.lowered.supersteps)
        copy_cycles = sum(superstep.total_cycles for superstep in copies.supersteps)
        if copy_cycles > copy_share * own_cycles:
            continue  # It keeps code of its own.
        node.code, node.call = key, copies
        for place, memory in enumerate(memories):
            if place not in copied_places:
                code.places[place] = memory


def _copies(
    node: Node,
    copied_places: Sequence[int],
    footprints: Sequence[Footprint],
    code: _Code,
    buffers: BufferTable,
    target: Target,
) -> LoweredInstruction:
    """Returns the copies of operands to the places of shared code, and of results from there."""
    if not copied_places:
        return _NO_COPIES
    source_buffers = {buffers.find(buffer) for buffer in node.reads}
    result_buffers = {buffers.find(buffer) for buffer in node.writes}
    memories = _memories(node, buffers)
    stages: dict[_Copied, int] = {}
    for place in copied_places:
        own_place, code_place = footprints[place], code.footprints[place]
        apart = (own_place.first_tile, own_place.tiles) != (
            code_place.first_tile,
            code_place.tiles,
        )
        for name, is_copied, footprint in (
            ("copy operands", memories[place] in source_buffers, code_place),
            ("copy results", memories[place] in result_buffers, own_place),
        ):
            if is_copied:
                key = name, footprint.first_tile, footprint.tiles, apart
                stages[key] = stages.get(key, 0) + footprint.tile_bytes
    scratch = tuple(code.footprints[place] for place in copied_places)
    return _lowered_copies(tuple(stages.items()), scratch, target)


@lru_cache(maxsize=_CACHED_COPIES)
def _lowered_copies(
    stages: tuple[tuple[_Copied, int], ...], scratch: tuple[Footprint, ...], target: Target
) -> LoweredInstruction:
    """Returns copies of so many bytes on each tile, which equal layers need again and again."""
    return lower_stages(
        [_stage(key, tile_bytes, target) for key, tile_bytes in stages], (), target, scratch=scratch
    )


def _stage(key: _Copied, tile_bytes: int, target: Target) -> ComputeStage:
    """Returns the copies of so many bytes on each tile: within tiles, or between them."""
    name, first_tile, tiles, apart = key
    where = Placement(
        elements=tiles * tile_bytes, element_bytes=1, first_tile=first_tile, tiles=tiles
    )
    if not apart:
        return ComputeStage(
            name=name, where=where, vertex=vertex_costs.copy(tile_bytes, "u8", target)
        )
    traffic = Traffic(
        received_bytes=tile_bytes,
        sent_bytes=tile_bytes,
        total_bytes=tiles * tile_bytes,
        received=1,
        sent=1,
    )
    return ComputeStage(name=name, where=where, traffic=traffic, into_place=True)


def _in_order(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yields nodes in running order, those of bodies before the node that runs them."""
    for node in nodes:
        for body, _ in node.bodies:
            yield from _in_order(body.nodes[index] for index in body.order)
        yield node


def _lives(in_order: Sequence[Node], buffers: BufferTable) -> Mapping[int, _Life]:
    """Returns the lives of all memory."""
    lives: dict[int, _Life] = {}
    for number, node in enumerate(in_order):
        for buffer in (*node.reads, *node.writes):
            memory = buffers.find(buffer)
            life = lives.setdefault(memory, _Life(first=number, last=number))
            life.last = number
            if buffers[memory].always_live:
                life.first, life.last = -1, len(in_order)
    return lives


def _memories(node: Node, buffers: BufferTable) -> list[int]:
    """Returns the memory of every operand, then of every result, of a node."""
    return [buffers.find(buffer) for buffer in (*node.reads, *node.writes)]


def _code_key(node: Node) -> Hashable:
    """Returns a key that is equal for nodes that can share vertices and exchanges.

    Tiles do not matter: operands that lie elsewhere move to the shared code.
    """
    lowered = node.lowered
    return (
        node.instruction.opcode,
        len(node.reads),
        len(node.writes),
        lowered.plan,
        lowered.supersteps,
        tuple(
            (where.elements, where.layout, where.footprint.anywhere) for where in lowered.results
        ),
        tuple(footprint.anywhere for footprint in lowered.scratch),
        tuple(footprint.anywhere for footprint in lowered.exchange_buffers),
        tuple(footprint.anywhere for footprint in lowered.vertex_state),
        lowered.exchange_code_bytes,
        tuple(sorted(lowered.code.items())),
    )
