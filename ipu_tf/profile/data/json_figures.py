"""The figures of programs as plain data, for readers of report files without ipu_tf."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence

from ipu_tf.base import codec
from ipu_tf.profile.figures import energy
from ipu_tf.profile.figures import program_figures as figures
from ipu_tf.programs.calls import call_of
from ipu_tf.programs.program import Program, TileOp
from ipu_tf.tile_program.device_program import DeviceProgram, IpuMemory, StageProgram


def program_figures(program: Program) -> dict[str, object]:
    """Returns the name of a program and, if it is compiled, its main figures as plain data."""
    if program.device is None:
        return {"program": program.name}
    return {
        "program": program.name,
        **call_figures(program.device, program.steps_per_execution),
        **device_figures(program.device, program.tile_ops),
    }


def call_figures(device: DeviceProgram, steps: int) -> dict[str, object]:
    """Returns the figures of a call from the host as plain data; null if they are not known.

    Args:
        device: The program.
        steps: The steps that a call runs.
    """
    call = call_of(device, steps)
    return {
        "runs_per_call": call.runs if call.is_known else None,
        "call_seconds": call.seconds if call.is_known else None,
        "called_samples_per_second": call.samples_per_second if call.is_known else None,
    }


def device_figures(program: DeviceProgram, tile_ops: Sequence[TileOp]) -> dict[str, object]:
    """Returns the main figures of a compiled program as plain data; docs/report.md lists them."""
    return {
        "chip": program.target.chip,
        "system": program.system,
        "schedule": program.schedule,
        "recompute": program.recompute,
        **_recomputation_figures(program),
        "replicas": program.replicas,
        "micro_batches": program.micro_batches,
        "cycles": program.cycles,
        "seconds": figures.seconds(program),
        "samples_per_run": program.samples_per_run,
        "samples_per_update": program.samples_per_update,
        "samples_per_second": program.samples_per_second,
        "flops": figures.flops(program),
        "flop_utilisation": figures.flop_utilisation(program, tile_ops),
        "cycles_by_kind": codec.encode(figures.cycle_shares(program)),
        "tile_balance": figures.tile_balance(program),
        "bubble_share": program.timeline.bubble_share,
        "link_cycles": program.timeline.link_cycles,
        "update_cycles": program.update_cycles,
        "all_reduce_cycles": program.all_reduce_cycles,
        "limiting_stage": program.limiting_stage.index,
        "stages": [_stage_figures(stage) for stage in program.stages],
        "layers": _layers(program, tile_ops),
        "joules": energy.joules(program, tile_ops),
        "joules_per_sample": energy.joules_per_sample(program, tile_ops),
        "ipus": [_ipu_figures(ipu) for ipu in program.ipus],
        "crossing_bytes": sum(
            crossing.bytes for crossing in program.crossings if crossing.phase != "update"
        ),
        "streaming_bytes": program.streaming_bytes,
        "fits": program.fits,
        "complete": program.complete,
    }


def _recomputation_figures(program: DeviceProgram) -> dict[str, object]:
    recomputation = figures.recomputation(program)
    return {
        "forward_operations": recomputation.forward_operations,
        "recomputed_operations": recomputation.recomputed_layers,
        "live_activations": recomputation.kept_activations,
        "recomputed_cycles": recomputation.cycles,
        "checkpoints": list(program.checkpoints),
    }


def _stage_figures(stage: StageProgram) -> dict[str, object]:
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
        "overlapped_cycles": dataclasses.asdict(stage.overlapped),
        "waiting_cycles": dataclasses.asdict(stage.waiting),
    }


def _ipu_figures(ipu: IpuMemory) -> dict[str, object]:
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


def _layers(program: DeviceProgram, tile_ops: Sequence[TileOp]) -> list[dict[str, object]]:
    always: collections.Counter[str] = collections.Counter()
    at_peak: collections.Counter[str] = collections.Counter()
    for stage in program.stages:
        for live in figures.live_at_peak(stage.program):
            always[live.layer] += live.always_live_bytes
            at_peak[live.layer] += live.other_bytes
    return [
        _layer_figures(layer)
        | {
            "always_live_bytes": always[layer.layer],
            "peak_bytes": at_peak[layer.layer],
        }
        for layer in figures.layers(program, tile_ops)
    ]


def _layer_figures(layer: figures.LayerCycles) -> dict[str, object]:
    by_phase = {f"{phase}_cycles": layer.by_phase.get(phase, 0) for phase in figures.PHASES}
    return {
        "layer": layer.layer,
        "cycles": layer.cycles,
        "flops": layer.flops,
        "flop_utilisation": layer.flop_utilisation,
        "exchange_bytes": layer.exchange_bytes,
    } | by_phase
