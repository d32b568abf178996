"""Reports as text: pure functions from values to lines."""

from __future__ import annotations

import collections
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from ipu_tf.compiler.device_program import DeviceProgram
from ipu_tf.compiler.planner.plan import OpShape
from ipu_tf.profile import figures, pipeline_text, sections
from ipu_tf.profile.pipeline_figures import seconds
from ipu_tf.profile.program import NativeOp, Program, TileOp
from ipu_tf.profile.units import count, duration, percent

_WIDTH = 96
"""Characters of a line of prose."""


def program_lines(program: Program, *, plans: bool = False) -> Iterator[str]:
    """Yields the lines of one program.

    Args:
        program: The program.
        plans: Whether every tile op is listed with its plan.
    """
    if program.pipeline is not None:
        yield f"Program '{program.name}'{pipeline_text.title(program.pipeline)}"
        yield from _indented(pipeline_text.lines(program.pipeline))
        yield from _indented(_execution_lines(program))
        yield from _indented(_op_lines(program, plans))
        return
    yield f"Program '{program.name}'{_on(program.device)}"
    if program.device is not None:
        yield from _indented(_device_lines(program.device, program.tile_ops))
    for line in program.refusal.splitlines():
        yield from _indented(textwrap.wrap(line, _WIDTH, subsequent_indent="  "))
    yield from _indented(_execution_lines(program))
    yield from _indented(_op_lines(program, plans))


def _execution_lines(program: Program) -> Iterator[str]:
    steps = program.steps_per_execution
    if steps == 1:
        return
    if program.pipeline is not None:
        runs, run_seconds = steps // program.pipeline.micro_batches, seconds(program.pipeline)
    elif program.device is not None:
        runs, run_seconds = steps, figures.seconds(program.device)
    else:
        return
    yield f"a call from the host runs {steps} steps in {duration(runs * run_seconds)}"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" if line else line for line in lines)


def _on(device: DeviceProgram | None) -> str:
    if device is None:
        return " is not compiled for the machine"
    chip = device.target
    clock = f"{chip.clock_hz / 1e9:g} GHz"
    return f" on one {chip.chip} IPU, {chip.tiles} tiles at {clock}; all figures are modelled"


def _device_lines(device: DeviceProgram, tile_ops: Sequence[TileOp]) -> Iterator[str]:
    yield from _overview(device, tile_ops)
    yield ""
    yield from sections.layer_lines(figures.layers(device))
    yield ""
    yield from sections.memory_lines(device.memory)
    yield ""
    yield from sections.peak_lines(device)
    yield ""
    if not device.memory.fits:
        yield from sections.overflow_lines(device)
        yield ""
    for opcode, layers in device.unsupported.items():
        where = ", ".join(layer or sections.NO_LAYER for layer in layers)
        yield f"incomplete: '{opcode}' has no cost, in {where}"
    for note in device.notes:
        yield f"note: {note}"


def _overview(device: DeviceProgram, tile_ops: Sequence[TileOp]) -> Iterator[str]:
    run_seconds, shares = figures.seconds(device), figures.cycle_shares(device)
    speed = figures.samples_per_second(device)
    samples = ""
    if speed is not None:
        samples = f"; {device.samples_per_run} samples a step, {speed:,.1f} samples/s"
    yield f"time          {device.cycles:,} cycles a step, {duration(run_seconds)}{samples}"
    kinds = {name: getattr(shares, name) for name in ("compute", "exchange", "sync", "host")}
    whole = max(1, shares.total)
    split = ", ".join(f"{name} {percent(cycles / whole)}" for name, cycles in kinds.items())
    yield f"cycles        {split}"
    operations = figures.flops(device)
    rate = operations / run_seconds if run_seconds else 0.0
    used = f"{percent(figures.flop_utilisation(device, tile_ops))} of the chip's peak"
    yield f"arithmetic    {count(operations, 'FLOP')} a step, {count(rate, 'FLOP/s')}, {used}"
    balance = percent(figures.tile_balance(device))
    yield f"tile balance  {balance} of the tiles are busy while any computes"
    yield f"tile memory   {sections.memory_line(device.memory)}"


def _op_lines(program: Program, plans: bool) -> Iterator[str]:
    yield f"{len(program.tile_ops)} tile ops, {len(program.native_ops)} native contractions"
    if plans and program.tile_ops:
        yield from _plan_lines(program.tile_ops)
    for (reason, op_type, layer), times in _native_kinds(program.native_ops).items():
        where = sections.shortened(layer)
        yield f"native, {reason}: {f'{times} ' * (times > 1)}{op_type} in {where}"


def _plan_lines(ops: Iterable[TileOp]) -> Iterator[str]:
    """Yields what each tile op computes, and below it how it is split over tiles."""
    for op in ops:
        yield from _wrapped(f"{sections.shortened(op.layer)}: {op.op_type} {_size(op.shape)}")
        yield from _wrapped(f"  {op.plan.tiles} tiles: {_splits(op)}")


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, _WIDTH, subsequent_indent="    ")


def _native_kinds(ops: Sequence[NativeOp]) -> dict[tuple[str, str, str], int]:
    """Returns how often there is an op for a reason, of a type, in a layer."""
    return collections.Counter((op.reason, op.op_type, op.layer) for op in ops)


def _size(shape: OpShape) -> str:
    sizes = "x".join(str(extent) for extent in shape.extents.values() if extent > 1)
    return f"{sizes or 1} {shape.dtype}"


def _splits(op: TileOp) -> str:
    splits = [f"{name} {parts}" for name, parts in op.plan.splits.items() if parts > 1]
    rounding = ["stochastic rounding"] if op.stochastic_rounding else []
    return ", ".join([*splits, f"{op.plan.partials} partials", *rounding])
