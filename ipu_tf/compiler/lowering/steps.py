"""Assembles supersteps: their exchange, their vertices, and their memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ipu_tf.compiler.layouts.footprint import Footprint
from ipu_tf.compiler.layouts.placement import Placement
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.tile_work import StageWork
from ipu_tf.compiler.lowering.traffic import NOTHING, Traffic
from ipu_tf.machine import exchange
from ipu_tf.machine.superstep import Superstep
from ipu_tf.machine.target import Target
from ipu_tf.machine.vertices import Vertex


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeStage:
    """One superstep whose cycles are not yet computed.

    Attributes:
        name: Its name, such as "add partials".
        where: A placement on the tiles that work, or receive.
        traffic: The exchange before the vertices.
        vertex: The vertices of each tile; None for an exchange alone.
        into_place: Whether received data needs no buffer: it is the result, or a vertex's scratch
            that is counted elsewhere.
        times: Number of runs in sequence.
    """

    name: str
    where: Placement
    traffic: Traffic = NOTHING
    vertex: Vertex | None = None
    into_place: bool = False
    times: int = 1


def lower_stages(
    stages: Sequence[ComputeStage],
    results: Sequence[Placement],
    target: Target,
    *,
    in_place: int | None = None,
    scratch: Sequence[Footprint] = (),
    flops: int = 0,
) -> LoweredInstruction:
    """Returns the lowering of an instruction that runs some stages.

    Args:
        stages: The stages, in order; those that cost nothing are left out.
        results: The placements of the result.
        target: The machine.
        in_place: Index of an operand that the result may overwrite.
        scratch: Memory in use while it runs.
        flops: Its floating point operations.
    """
    vertices = [(stage, stage.vertex) for stage in stages if stage.vertex is not None]
    return LoweredInstruction(
        supersteps=supersteps(stages, target),
        results=tuple(results),
        in_place=in_place,
        scratch=tuple(scratch),
        exchange_buffers=_buffers(stages),
        vertex_state=tuple(
            _footprint(stage.where, int(vertex.state_bytes))
            for stage, vertex in vertices
            if vertex.state_bytes
        ),
        code={vertex.codelet: vertex.code_bytes for _, vertex in vertices if vertex.cycles},
        exchange_code_bytes=sum(stage.traffic.code_bytes for stage in stages),
        flops=flops,
    )


def supersteps(stages: Sequence[ComputeStage], target: Target) -> tuple[Superstep, ...]:
    """Returns the supersteps of stages; those that cost nothing are left out."""
    made = (_superstep(stage, target) for stage in stages)
    return tuple(step for step in made if step.total_cycles > 0)


@lru_cache(maxsize=1 << 14)
def exchange_cycles(traffic: Traffic, target: Target) -> int:
    """Returns the cycles of an exchange and of the copies around it, without the sync before it."""
    moving = exchange.phase_cycles(traffic.received_bytes, target, sent_bytes=traffic.sent_bytes)
    return int(moving) + traffic.rearranged_cycles


def _superstep(stage: ComputeStage, target: Target) -> Superstep:
    """Returns a superstep; without an exchange its tiles need not wait for each other."""
    moving = exchange_cycles(stage.traffic, target)
    compute = int(stage.vertex.cycles) if stage.vertex is not None else 0
    return Superstep(
        name=stage.name,
        sync_cycles=stage.times * target.sync_cycles if moving else 0,
        exchange_cycles=stage.times * moving,
        compute_cycles=stage.times * compute,
        busy_tile_cycles=stage.times * compute * stage.where.tiles,
        exchange_bytes=stage.times * stage.traffic.total_bytes,
        work=StageWork(
            tiles=target.tiles,
            where=stage.where,
            routes=stage.traffic.routes,
            times=stage.times,
        ),
    )


def _buffers(stages: Sequence[ComputeStage]) -> tuple[Footprint, ...]:
    """Returns the receive buffers of tiles; a later stage reuses those of an earlier one."""
    largest: dict[tuple[int, int], int] = {}
    for stage in stages:
        if stage.traffic.received_bytes and not stage.into_place:
            tiles = (stage.where.first_tile, stage.where.tiles)
            largest[tiles] = max(largest.get(tiles, 0), stage.traffic.received_bytes)
    return tuple(
        Footprint(first_tile=first, tiles=tiles, tile_bytes=size)
        for (first, tiles), size in largest.items()
    )


def _footprint(where: Placement, tile_bytes: int) -> Footprint:
    return Footprint(first_tile=where.first_tile, tiles=where.tiles, tile_bytes=tile_bytes)
