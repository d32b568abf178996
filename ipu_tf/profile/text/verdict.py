"""The main limit of a program, with advice, in one line."""

from __future__ import annotations

from collections.abc import Mapping

from ipu_tf.profile.figures import program_figures as figures
from ipu_tf.profile.text.units import kib, percent
from ipu_tf.programs.program import Program
from ipu_tf.tile_program import errors
from ipu_tf.tile_program.device_program import DeviceProgram

_HALF = 0.5

_ADVISED = 2
"""The most changes that the line names; the lines of the program have all of them."""

_ADVICE: Mapping[str, str] = {
    "bubble": "accumulate more micro-batches an update, or use fewer stages",
    "all-reduce": "accumulate more micro-batches between updates",
    "streaming": "offload less to streaming memory, or accumulate more micro-batches",
}
"""Advice for the activity that takes most of the time."""

_LARGER_BATCHES: Mapping[str, str] = {
    "host": "use larger batches",
    "exchange": "use larger batches, so that tiles compute more for the data that they exchange",
    "sync": "use larger batches: a superstep syncs once, however little it computes",
}

_NARROWER = "send narrower types, such as float16 or uint8"

_KERAS_STEPS = frozenset({"train_step", "test_step", "predict_step"})


def verdict(program: Program) -> str:
    """Returns the main limit of a compiled program, with advice.

    Args:
        program: The program.
    """
    device = program.device
    if device is None:
        return f"'{program.name}' is not compiled for the machine"
    if not device.fits:
        helps = next((i.advice for i in program.insights if i.makes_fit), None)
        return _overflow(device, helps)
    if not device.complete:
        opcodes = ", ".join(f"'{opcode}'" for opcode in device.unsupported)
        return f"incomplete: {opcodes} have no cost, so the figures are too low"
    bound, share = limit_of(device)
    if not share:
        return "it does no work that takes time"
    line = f"{bound}-bound, {percent(share)} of the time"
    faster = [insight for insight in program.insights if insight.speedup > 1]
    if faster:
        best = sorted(faster, key=lambda insight: -insight.speedup)[:_ADVISED]
        return f"{line}: {', or '.join(f'{i.advice} ({i.speedup:.2f} x)' for i in best)}"
    advice = _advice(program, device, bound)
    return f"{line}: {advice}" if advice else line


def _advice(program: Program, device: DeviceProgram, bound: str) -> str:
    """Returns a change that shifts the limit and that the user can make; "" if none is known.

    Batches, types and replicas can be changed in steps of Keras models. What was planned again with
    larger batches and did not gain is not advised.
    """
    if bound in _ADVICE:
        return _ADVICE[bound]
    if program.name.rpartition(".")[2] not in _KERAS_STEPS:
        return ""
    larger = "" if program.insights_sought else _LARGER_BATCHES.get(bound, "")
    if bound == "host":
        return ", or ".join(filter(None, (larger, _NARROWER)))
    return larger if bound != "compute" else _about_computation(program, device)


def limit_of(device: DeviceProgram) -> tuple[str, float]:
    """Returns the activity that takes most of the time of a replica's IPUs, and its share."""
    shares = figures.cycle_shares(device)
    ipus = 1 if device.in_step else len(device.ipus)
    stream_cycles = sum(figures.moved_cycles(stage.streamed, device) for stage in device.stages)
    late = sum(figures.moved_cycles(stage.waiting, device) for stage in device.stages)
    from_host = not device.streaming_bytes
    bubble_cycles = device.timeline.bubble_share * device.timeline.cycles * ipus
    cycles_of_kinds: dict[str, float] = {
        "compute": shares.compute,
        "exchange": shares.exchange,
        "sync": shares.sync,
        "host": shares.host + late * from_host,
        "bubble": bubble_cycles,
        "all-reduce": device.all_reduce_cycles * ipus,
        "streaming": stream_cycles + late * (not from_host),
    }
    bound = max(cycles_of_kinds, key=lambda kind: cycles_of_kinds[kind])
    return bound, min(1.0, cycles_of_kinds[bound] / max(1, device.cycles * ipus))


def _overflow(device: DeviceProgram, helps: str | None) -> str:
    """Returns by how much a program does not fit, and what helps.

    Args:
        device: The program.
        helps: The change with which it fits, as planned again; None if none is known.
    """
    if device.streaming_bytes > device.streaming_limit_bytes:
        return "does not fit into streaming memory: offload less, or use more machines"
    over = int(device.memory.peak_tile_bytes.max(initial=0)) - device.memory.limit_bytes
    ipu = device.fullest_ipu
    fullest = max(
        (device.stages[stage].program for stage in ipu.stages),
        key=lambda stage: int(stage.memory.peak_tile_bytes.max(initial=0)),
    )
    advice = helps or next(iter(errors.advice(fullest)), "use a machine with more memory")
    return f"does not fit by {kib(over)} KiB on IPU {ipu.ipu}: {advice}"


def _about_computation(program: Program, device: DeviceProgram) -> str:
    """Returns what makes computation faster."""
    balance = figures.tile_balance(device)
    if balance < _HALF:
        if program.insights_sought:
            return ""
        return f"use larger batches: {percent(balance)} of the tiles are busy while any computes"
    if any(op.shape.dtype == "float32" for op in program.tile_ops):
        return "use float16 for matmuls and convolutions, such as by keras.mixed_precision"
    return "use more replicas: the tiles are busy"
