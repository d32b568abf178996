"""Assembles supersteps of an exchange and the vertices after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ipu_tf.machine import exchange
from ipu_tf.machine.superstep import Superstep
from ipu_tf.machine.target import Target
from ipu_tf.machine.vertices import Vertex
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.tile_work import BroadcastWork, StageWork
from ipu_tf.tile_program.traffic import NOTHING, Traffic

PREDICATE_BYTES = 4
"""Bytes of a value that all tiles branch on."""

_BRANCH_CYCLES = 12
"""Two supervisor instructions, a load and a branch taken, of six cycles each (ISA)."""


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


def supersteps(stages: Sequence[ComputeStage], target: Target) -> tuple[Superstep, ...]:
    """Returns the supersteps of stages; those that cost nothing are left out."""
    steps = (_superstep(stage, target) for stage in stages)
    return tuple(step for step in steps if step.total_cycles > 0)


def decision(name: str, times: int, target: Target) -> Superstep:
    """Returns the cost to give all tiles a value and branch on it, the given number of times."""
    predicate_cycles = exchange.broadcast_cycles(PREDICATE_BYTES, target.tiles - 1, target)
    return Superstep(
        name=name,
        sync_cycles=times * target.sync_cycles,
        exchange_cycles=times * int(predicate_cycles),
        compute_cycles=times * _BRANCH_CYCLES,
        busy_tile_cycles=times * _BRANCH_CYCLES * target.tiles,
        exchange_bytes=times * PREDICATE_BYTES * (target.tiles - 1),
        work=BroadcastWork(tiles=target.tiles),
    )


@lru_cache(maxsize=1 << 14)
def exchange_cycles(traffic: Traffic, target: Target) -> int:
    """Returns the cycles of an exchange and of the copies around it, without the sync before it."""
    message_cycles = exchange.phase_cycles(
        traffic.received_bytes, target, sent_bytes=traffic.sent_bytes
    )
    return int(message_cycles) + traffic.rearranged_cycles


def _superstep(stage: ComputeStage, target: Target) -> Superstep:
    """Returns a superstep; without an exchange its tiles need not wait for each other."""
    cycles = exchange_cycles(stage.traffic, target)
    compute = int(stage.vertex.cycles) if stage.vertex is not None else 0
    return Superstep(
        name=stage.name,
        sync_cycles=stage.times * target.sync_cycles if cycles else 0,
        exchange_cycles=stage.times * cycles,
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
