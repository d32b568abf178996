"""Reports as text: pure functions from values to lines."""

from __future__ import annotations

import collections
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from ipu_tf.planner.plan import OpShape
from ipu_tf.profile.text import device_text, sections
from ipu_tf.profile.text.nonfinite_text import nonfinite_lines
from ipu_tf.profile.text.rendering import current, styled
from ipu_tf.profile.text.table import Row, table
from ipu_tf.profile.text.units import duration, kib, percent
from ipu_tf.profile.text.verdict import limit_of, verdict
from ipu_tf.programs.calls import call_of
from ipu_tf.programs.insight import Insight
from ipu_tf.programs.program import NativeOp, Program, TileOp
from ipu_tf.tile_program.device_program import DeviceProgram

_INDENT = 4
_LABEL = 14
"""Characters of the label of a line of figures, the spaces behind it included."""
_NOTHING_TO_GAIN = "to gain: no change that was planned again gains half a percent"
_LABELLED = re.compile(rf"[a-z][a-z ]{{{_LABEL - 2}}} (?=\S)")


def overview_lines(programs: Sequence[Program]) -> Iterator[str]:
    """Yields what limits the program that matters most, then a table if there are several.

    Training matters most; else the program that takes longest.
    """
    compiled = [program for program in programs if program.device is not None]
    if not compiled:
        return
    first = max(compiled, key=_weight)
    prefix = f"'{first.name}': " if len(compiled) > 1 else ""
    yield styled(prefix + verdict(first), "bold")
    if len(compiled) > 1:
        yield ""
        header = ("programs", "cycles", "time", "samples/s", "fullest tile, KiB", "limited by")
        yield from table(header, map(_overview_row, compiled))


def _weight(program: Program) -> tuple[bool, int]:
    device = program.device
    if device is None:
        return False, 0
    return any(step.phase == "update" for step in device.steps), device.cycles


def _overview_row(program: Program) -> Row:
    device = program.device
    if device is None:
        return (program.name, "", "", "", "", "not compiled")
    bound, share = limit_of(device)
    call = call_of(device, program.steps_per_execution)
    speed = call.samples_per_second
    return (
        program.name,
        f"{device.cycles:,}",
        duration(call.run_seconds),
        "" if speed is None else f"{speed:,.1f}",
        kib(device.memory.peak_tile_bytes.max(initial=0)),
        f"{bound}, {percent(share)}" if device.fits else "OUT OF MEMORY",
    )


def program_lines(program: Program, *, plans: bool = False) -> Iterator[str]:
    """Yields the lines of one program.

    Args:
        program: The program.
        plans: Whether every tile op is listed with its plan.
    """
    device = program.device
    where = device_text.title(device) if device else " is not compiled for the machine"
    yield f"Program '{program.name}'{where}"
    if device is not None:
        call = call_of(device, program.steps_per_execution)
        yield from _indented(device_text.lines(device, program.tile_ops, call))
        yield from _indented(_insight_lines(program, device))
    for line in program.refusal.splitlines():
        yield from _indented(textwrap.wrap(line, _width(), subsequent_indent="  "))
    for fault in program.nonfinite:
        yield from _indented(nonfinite_lines(fault))
    if device is None or device.front == "tensorflow":
        yield from _indented(_op_lines(program, plans))


def _insight_lines(program: Program, device: DeviceProgram) -> Iterator[str]:
    """Yields what each change gains, as planned again with it, and what was not planned."""
    for insight in program.insights:
        yield from gain_lines(insight, device)
    yield from closing_lines(program)


def closing_lines(program: Program) -> Iterator[str]:
    """Yields that no change gains anything, or what was not planned."""
    if program.insights_sought and not program.insights:
        yield _NOTHING_TO_GAIN
    if program.insights_note:
        line = f"not planned: {program.insights_note}"
        yield from textwrap.wrap(line, _width(), subsequent_indent="  ")


def gain_lines(insight: Insight, device: DeviceProgram) -> Iterator[str]:
    """Yields what a change gains.

    Args:
        insight: The change.
        device: The program as it is.
    """
    gain = "fits" if insight.makes_fit else f"{insight.speedup:.2f} x"
    line = f"to gain: {gain}, {device_text.rate(insight, device)} with {insight.advice}"
    yield from textwrap.wrap(line, _width(), subsequent_indent="  ")


def _indented(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if _LABELLED.match(line):
            pieces = textwrap.wrap(line, _width(), subsequent_indent=" " * _LABEL)
            yield from (f"  {part}" for part in pieces)
        else:
            yield f"  {line}" if line else line


def _op_lines(program: Program, plans: bool) -> Iterator[str]:
    yield f"{len(program.tile_ops)} tile ops, {len(program.native_ops)} native contractions"
    if plans and program.tile_ops:
        yield from _plan_lines(program.tile_ops)
    for (reason, op_type, layer), times in _native_kinds(program.native_ops).items():
        where = sections.shortened(layer)
        yield f"native, {reason}: {f'{times} ' * (times > 1)}{op_type} in {where}"


def _plan_lines(ops: Iterable[TileOp]) -> Iterator[str]:
    """Yields the shape of each tile op, and its split over tiles below."""
    for op in ops:
        yield from _wrapped(f"{sections.shortened(op.layer)}: {op.op_type} {_size(op.shape)}")
        yield from _wrapped(f"  {op.plan.tiles} tiles: {_splits(op)}")


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, _width(), subsequent_indent="    ")


def _width() -> int:
    """Returns the characters of a line of prose, which is indented."""
    return current().width - _INDENT


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
