"""Compiled stages with their variables in their places: on tiles, or in streaming memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ipu_tf.compiler.pipeline.deployment import Deployment, Offload
from ipu_tf.compiler.pipeline.fifo import Fifo
from ipu_tf.compiler.pipeline.off_chip import off_chip
from ipu_tf.compiler.pipeline.shared_updates import SharedUpdate
from ipu_tf.compiler.pipeline.timeline import Wiring
from ipu_tf.machine import streaming
from ipu_tf.tile_program.device_program import IpuMemory, StageProgram
from ipu_tf.tile_program.memory import CATEGORIES
from ipu_tf.tile_program.moves import ahead_cycles, overlapped_cycles, step_cycles, waits
from ipu_tf.tile_program.program import TileMemory, TileProgram


@dataclass(frozen=True, slots=True)
class CompiledStage:
    """A stage, compiled for its IPU.

    Attributes:
        number: Its number.
        update: Its module.
        program: The module, compiled, with all its variables on the tiles.
        fifos: Its FIFOs.
    """

    number: int
    update: SharedUpdate
    program: TileProgram
    fifos: Sequence[Fifo]


def placed_stages(
    compiled: Sequence[CompiledStage], deployment: Deployment, wiring: Wiring
) -> tuple[list[StageProgram], tuple[str, ...]]:
    """Returns the stages with their variables in their places, and notes about them.

    The optimizer state goes to streaming memory where the deployment lets it and an IPU overflows.

    Args:
        compiled: The stages, in order.
        deployment: How they run.
        wiring: The IPUs.
    """
    offload = deployment.offload
    stages = [_stage(stage, deployment, offload, wiring) for stage in compiled]
    full = [ipu.ipu for ipu in memory_of_ipus(stages) if ipu.memory.overflow_bytes]
    movable = deployment.may_move_state and not offload.optimizer_state
    if not full or not movable or not streaming_limit_bytes(wiring):
        return stages, ()
    away = dataclasses.replace(offload, optimizer_state=True)
    moved_stages = [_stage(stage, deployment, away, wiring) for stage in compiled]
    if sum(stage.streaming_bytes for stage in moved_stages) == sum(
        s.streaming_bytes for s in stages
    ):
        return stages, ()
    note = (
        "The state of the optimizer is in streaming memory, because the tiles of IPU "
        f"{', '.join(map(str, full))} do not hold it. offload_weight_update_variables=False keeps "
        "it on the tiles, True always moves it."
    )
    return moved_stages, (note,)


def _stage(
    compiled: CompiledStage, deployment: Deployment, offload: Offload, wiring: Wiring
) -> StageProgram:
    """Returns a stage whose variables are in their places, with the time to move them."""
    stage, program = compiled.number, compiled.program
    away = off_chip(
        compiled.update.module,
        program,
        offload,
        wiring,
        fifos=compiled.fifos,
        shared=compiled.update.variables,
    )
    busy = step_cycles(program) + away.streamed + away.gathered
    overlapped = overlapped_cycles(program) + away.overlapped
    idle = waits(busy, overlapped + ahead_cycles(program))
    cycles = busy + idle
    return StageProgram(
        index=stage,
        ipu=deployment.ipus[stage],
        program=away.program,
        forward_cycles=cycles.forward,
        backward_cycles=cycles.backward,
        recomputed_cycles=program.recomputed_cycles,
        update_cycles=cycles.update,
        fifo_bytes=sum(fifo.bytes for fifo in compiled.fifos),
        fifo_depth=max((fifo.depth for fifo in compiled.fifos), default=0),
        streamed=away.streamed,
        gathered=away.gathered,
        streaming_bytes=away.streaming_bytes,
        overlapped=overlapped,
        waiting=idle,
    )


def memory_of_ipus(stages: Sequence[StageProgram]) -> tuple[IpuMemory, ...]:
    """Returns the IPUs of a replica with the memory of their stages."""
    numbers = sorted({stage.ipu for stage in stages})
    return tuple(
        IpuMemory(
            ipu=ipu,
            stages=tuple(stage.index for stage in stages if stage.ipu == ipu),
            memory=_together([s.program.memory for s in stages if s.ipu == ipu]),
            streaming_bytes=sum(s.streaming_bytes for s in stages if s.ipu == ipu),
        )
        for ipu in numbers
    )


def _together(memories: Sequence[TileMemory]) -> TileMemory:
    """Returns the memory of an IPU that runs several stages, one after the other.

    Always-live bytes add up, except for stacks; of all others, one stage's are live at a time.
    """
    if len(memories) == 1:
        return memories[0]
    fullest = max(memories, key=lambda memory: int(memory.peak_tile_bytes.max()))
    always_live = {
        category: (np.max if category == "stack" else np.sum)(
            [memory.always_live[category] for memory in memories], axis=0
        )
        for category in CATEGORIES
    }
    always_live_bytes = np.sum(list(always_live.values()), axis=0)
    growth = always_live_bytes - np.sum(list(fullest.always_live.values()), axis=0)
    return dataclasses.replace(
        fullest,
        always_live=always_live,
        live_bytes=fullest.live_bytes + int(growth.sum()),
        max_tile_bytes=fullest.max_tile_bytes + int(growth.max()),
    )


def streaming_limit_bytes(wiring: Wiring) -> int:
    """Returns the streaming memory beside all replicas."""
    ipus = wiring.replica_ipus * wiring.replicas
    return streaming.capacity_bytes(wiring.system, 1 << (ipus - 1).bit_length())
