"""Lowers an instruction to stages: its supersteps, and the memory of tiles while they run."""

from __future__ import annotations

from collections.abc import Sequence

from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.machine.target import Target
from ipu_tf.tile_program.layouts.footprint import Footprint
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.steps import ComputeStage, supersteps


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
            footprint_on(stage.where, int(vertex.state_bytes))
            for stage, vertex in vertices
            if vertex.state_bytes
        ),
        code={vertex.codelet: vertex.code_bytes for _, vertex in vertices if vertex.cycles},
        exchange_code_bytes=sum(stage.traffic.code_bytes for stage in stages),
        flops=flops,
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


def footprint_on(where: Placement, tile_bytes: int) -> Footprint:
    """Returns the memory of as many bytes on every tile of a placement."""
    return Footprint(first_tile=where.first_tile, tiles=where.tiles, tile_bytes=tile_bytes)
