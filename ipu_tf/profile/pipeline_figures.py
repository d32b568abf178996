"""What a pipeline's stages add up to: the figures that reports print. All of them are modelled."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from itertools import chain
from typing import Any

from ipu_tf.compiler.hlo import Phase
from ipu_tf.compiler.pipeline import Moves, PipelineIpu, PipelineProgram, PipelineStage
from ipu_tf.profile import figures


def seconds(program: PipelineProgram) -> float:
    """Returns the seconds from one weight update to the next."""
    return program.target.seconds(program.cycles)


def samples_per_second(program: PipelineProgram) -> float | None:
    """Returns the samples per second of all replicas, None where their number is not known."""
    if not program.samples_per_update or not program.cycles:
        return None
    return program.samples_per_update / seconds(program)


def times(program: PipelineProgram) -> Mapping[Phase, int]:
    """Returns how often each part of a micro-batch's step runs for a weight update."""
    micro_batches = program.micro_batches
    return {"forward": micro_batches, "backward": micro_batches, "update": 1}


def layers(program: PipelineProgram) -> tuple[figures.LayerCycles, ...]:
    """Returns the cycles of every layer for a weight update of one replica, the most first.

    Activations that are computed again count once. Stages overlap, so their sum may be larger than
    the cycles of the program.
    """
    steps = chain.from_iterable(stage.program.steps for stage in program.stages)
    return figures.layers_of(steps, times(program))


def cycle_shares(stage: PipelineStage, program: PipelineProgram) -> figures.CycleShares:
    """Returns the cycles of a stage for a weight update, as `layers` counts them."""
    often = times(program)
    shares = (figures.cycles_of(step) * often[step.phase] for step in stage.program.steps)
    return sum(shares, figures.CycleShares())


def is_off_chip(stage: PipelineStage) -> bool:
    """Returns whether something of a stage is not whole on its tiles all the time."""
    return stage.streaming_bytes > 0 or stage.gathered != Moves()


def update_cycles(moves: Moves, program: PipelineProgram) -> int:
    """Returns the cycles that moves take from one weight update to the next."""
    return program.micro_batches * (moves.forward + moves.backward) + moves.update


def pipeline_figures(program: PipelineProgram) -> dict[str, Any]:
    """Returns the main figures of a pipeline as plain data; docs/report.md lists them."""
    timeline = program.timeline
    return {
        "chip": program.target.chip,
        "system": program.system,
        "schedule": program.schedule,
        "recompute": program.recompute,
        "replicas": program.replicas,
        "micro_batches": program.micro_batches,
        "cycles": program.cycles,
        "seconds": seconds(program),
        "samples_per_update": program.samples_per_update,
        "samples_per_second": samples_per_second(program),
        "bubble_share": timeline.bubble_share,
        "link_cycles": timeline.link_cycles,
        "update_cycles": program.update_cycles,
        "all_reduce_cycles": program.all_reduce_cycles,
        "limiting_stage": program.limiting_stage.index,
        "stages": [_stage_figures(stage) for stage in program.stages],
        "layers": [figures.layer_figures(layer) for layer in layers(program)],
        "ipus": [_ipu_figures(ipu) for ipu in program.ipus],
        "crossing_bytes": sum(
            crossing.bytes for crossing in program.crossings if crossing.phase != "update"
        ),
        "streaming_bytes": program.streaming_bytes,
        "fits": program.fits,
        "complete": program.complete,
    }


def _stage_figures(stage: PipelineStage) -> dict[str, Any]:
    return {
        "stage": stage.index,
        "ipu": stage.ipu,
        "forward_cycles": stage.forward_cycles,
        "backward_cycles": stage.backward_cycles,
        "recomputed_cycles": stage.recomputed_cycles,
        "update_cycles": stage.update_cycles,
        "fifo_bytes": stage.fifo_bytes,
        "fifo_depth": stage.fifo_depth,
        "streaming_bytes": stage.streaming_bytes,
        "streamed_cycles": dataclasses.asdict(stage.streamed),
        "gathered_cycles": dataclasses.asdict(stage.gathered),
    }


def _ipu_figures(ipu: PipelineIpu) -> dict[str, Any]:
    tiles = figures.tile_bytes(ipu.memory)
    return {
        "ipu": ipu.ipu,
        "stages": list(ipu.stages),
        "limit_bytes": ipu.memory.limit_bytes,
        "max_bytes": int(tiles.max(initial=0)),
        "mean_bytes": float(tiles.mean()) if tiles.size else 0.0,
        "fits": figures.fits(ipu.memory),
        "bytes_by_category": {
            category: int(values.sum())
            for category, values in figures.by_category(ipu.memory).items()
        },
    }
