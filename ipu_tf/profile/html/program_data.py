"""A traced program as plain data for a page: columns instead of rows, texts in one table."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ipu_tf.planner.plan import OpShape, Plan
from ipu_tf.profile.data.json_figures import call_figures, device_figures
from ipu_tf.profile.figures import program_figures as figures
from ipu_tf.profile.html.columns import Texts, TileColumns, runs
from ipu_tf.profile.text import device_text, nonfinite_text
from ipu_tf.profile.text.verdict import verdict
from ipu_tf.profile.text.words import WORDS
from ipu_tf.programs.nonfinite import NonFinite, ValueSummary
from ipu_tf.programs.program import Program, TileOp
from ipu_tf.tile_program import errors
from ipu_tf.tile_program.device_program import DeviceProgram, StageProgram


def program_data(program: Program) -> dict[str, object]:
    """Returns a program as plain data."""
    device = program.device
    return {
        "name": program.name,
        "verdict": verdict(program),
        "refusal": program.refusal,
        "insightsSought": program.insights_sought,
        "insightsNote": program.insights_note,
        "insights": [dataclasses.asdict(insight) for insight in program.insights],
        "nonfinite": list(map(_fault, program.nonfinite)),
        "nativeOps": [[op.layer, op.op_type, op.reason] for op in program.native_ops],
        "tileOps": list(map(_tile_op, program.tile_ops)),
        "device": None if device is None else _device(device, program),
    }


def _fault(fault: NonFinite) -> dict[str, object]:
    sizes = nonfinite_text.histogram(fault.operands)
    return {
        "title": nonfinite_text.title(fault),
        "facts": [[name, text] for name, text in nonfinite_text.facts(fault).items()],
        "tensors": [_values(one) for one in (*fault.operands, *fault.results)],
        "operands": [one.name for one in fault.operands],
        "sizes": [[size, list(counts)] for size, counts in sizes],
    }


def _values(tensor: ValueSummary) -> list[object]:
    """Returns the cells of a tensor in the table of those that an operation read and computed."""
    low, high = ("none" if one is None else f"{one:.6g}" for one in (tensor.low, tensor.high))
    shape = ", ".join(map(str, tensor.shape))
    dtype = f"{tensor.dtype}[{shape}]"
    return [tensor.name, dtype, low, high, tensor.zeros, tensor.infinities, tensor.nans]


def _device(device: DeviceProgram, program: Program) -> dict[str, object]:
    tile_ops = program.tile_ops
    texts, columns = Texts(), TileColumns()
    return {
        "where": device_text.title(device),
        "figures": call_figures(device, program.steps_per_execution)
        | device_figures(device, tile_ops),
        "words": dataclasses.asdict(WORDS[device.front]),
        "inStep": device.in_step,
        "tiles": device.target.tiles,
        "tileBytes": device.target.tile_bytes,
        "clockHz": device.target.clock_hz,
        "notes": list(device.notes),
        "unsupported": {opcode: list(layers) for opcode, layers in device.unsupported.items()},
        "stages": [
            _stage(stage, device, tile_ops, texts) | {"tileFigures": _tile_figures(stage, columns)}
            for stage in device.stages
        ],
        "ipus": [_ipu(device, index) for index in range(len(device.ipus))],
        "pipeline": _pipeline(device),
        "texts": texts.values,
        "tileRuns": columns.values,
    }


def _stage(
    stage: StageProgram, device: DeviceProgram, tile_ops: Sequence[TileOp], texts: Texts
) -> dict[str, object]:
    program = stage.program
    steps, tensors = program.steps, program.tensors
    supersteps = [superstep for step in steps for superstep in step.supersteps]
    return {
        "index": stage.index,
        "ipu": stage.ipu,
        # Besides its steps, in files of earlier versions alone.
        "recomputed": stage.recomputed_cycles - program.recomputed_cycles,
        "streamed": dataclasses.asdict(stage.streamed),
        "gathered": dataclasses.asdict(stage.gathered),
        "waiting": dataclasses.asdict(stage.waiting),
        "update": stage.update_cycles,
        "steps": {
            "name": [texts.number(step.name) for step in steps],
            "opcode": [texts.number(step.opcode) for step in steps],
            "layer": [texts.number(figures.place(step)) for step in steps],
            "opName": [texts.number(step.op_name) for step in steps],
            "phase": [figures.PHASES.index(step.phase) for step in steps],
            "repeats": [step.repeats for step in steps],
            "flops": [step.flops for step in steps],
            "peakCycles": [
                round(figures.peak_cycles(step, dtype, device.target))
                for step, dtype in figures.input_types(steps, tile_ops)
            ],
            "plan": [texts.number(_plan_text(step.plan)) for step in steps],
            "supersteps": [len(step.supersteps) for step in steps],
        },
        "supersteps": {
            "name": [texts.number(superstep.name) for superstep in supersteps],
            "sync": [superstep.sync_cycles for superstep in supersteps],
            "exchange": [superstep.exchange_cycles for superstep in supersteps],
            "compute": [superstep.compute_cycles for superstep in supersteps],
            "host": [superstep.host_cycles for superstep in supersteps],
            "busy": [superstep.busy_tile_cycles for superstep in supersteps],
            "bytes": [superstep.exchange_bytes for superstep in supersteps],
        },
        "tensors": {
            "name": [texts.number(tensor.name) for tensor in tensors],
            "layer": [texts.number(tensor.layer) for tensor in tensors],
            "category": [texts.number(tensor.category) for tensor in tensors],
            "bytes": [tensor.bytes for tensor in tensors],
            "firstStep": [tensor.first_step for tensor in tensors],
            "lastStep": [tensor.last_step for tensor in tensors],
            "alwaysLive": [int(tensor.always_live) for tensor in tensors],
            "firstTile": [tensor.footprint.first_tile for tensor in tensors],
            "tiles": [tensor.footprint.tiles for tensor in tensors],
            "tileBytes": [tensor.footprint.tile_bytes for tensor in tensors],
        },
    }


def _tile_figures(stage: StageProgram, columns: TileColumns) -> dict[str, list[int]] | None:
    """Returns the figures of every tile, superstep by superstep; None if they are not known."""
    steps = stage.program.steps
    all_figures = [superstep.tile_figures for step in steps for superstep in step.supersteps]
    figures_of_tiles = [figures for figures in all_figures if figures is not None]
    if len(figures_of_tiles) < len(all_figures):
        return None
    return {
        "compute": [columns.number(tiles.compute_cycles) for tiles in figures_of_tiles],
        "received": [columns.number(tiles.received_bytes) for tiles in figures_of_tiles],
        "sent": [columns.number(tiles.sent_bytes) for tiles in figures_of_tiles],
        "wait": [columns.number(tiles.sync_wait_cycles) for tiles in figures_of_tiles],
    }


def _ipu(device: DeviceProgram, index: int) -> dict[str, object]:
    ipu = device.ipus[index]
    memory = ipu.memory
    over = not memory.fits and len(ipu.stages) == 1
    return {
        "ipu": ipu.ipu,
        "stages": list(ipu.stages),
        "limit": memory.limit_bytes,
        "alwaysLive": [
            [category, runs(values)]
            for category, values in memory.always_live.items()
            if values.any()
        ],
        "atPeak": [
            [category, runs(values)]
            for category, values in memory.not_always_live_peak.items()
            if values.any()
        ],
        "peakStep": memory.peak_step,
        "liveBytes": memory.live_bytes.tolist(),
        "maxTileBytes": memory.max_tile_bytes.tolist(),
        "streamingBytes": ipu.streaming_bytes,
        "advice": list(errors.advice(device.stages[ipu.stages[0]].program)) if over else [],
    }


def _pipeline(device: DeviceProgram) -> dict[str, object] | None:
    """Returns the slots of a run of several stages; None if there is no pipeline."""
    if not device.is_pipeline:
        return None
    return {
        "slots": [
            [[work.stage, int(work.direction == "backward"), work.micro_batch] for work in slot]
            for slot in figures.slots(device)
        ],
        "linkCycles": list(device.timeline.slot_link_cycles),
        "cycles": device.timeline.cycles,
    }


def _tile_op(op: TileOp) -> dict[str, object]:
    return {
        "name": op.name,
        "layer": op.layer,
        "type": op.op_type,
        "what": op.shape.op,
        "dtype": op.shape.dtype,
        "sizes": _sizes(op.shape),
        "splits": op.plan.splits,
        "serial": op.plan.serial,
        "tiles": op.plan.tiles,
        "grain": op.plan.grain,
        "partials": op.plan.partials,
        "method": op.plan.method,
        "stochasticRounding": op.stochastic_rounding,
    }


def _sizes(shape: OpShape) -> dict[str, int]:
    return dict(shape.extents)


def _plan_text(plan: Plan | None) -> str:
    """Returns the splits of a plan, "" for steps without one."""
    if plan is None:
        return ""
    return (
        " x ".join(
            f"{name.replace('_', ' ')} {parts}" for name, parts in plan.splits.items() if parts > 1
        )
        or "1"
    )
