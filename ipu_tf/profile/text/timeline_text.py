"""When the stages of a pipeline work, as text: a row for each stage, a column for each slot."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from ipu_tf.compiler.pipeline import schedule
from ipu_tf.profile.figures import program_figures as figures
from ipu_tf.profile.text.rendering import current
from ipu_tf.profile.text.units import percent
from ipu_tf.tile_program.device_program import DeviceProgram

_WAITS = "."
_LEFT_OUT = "..."
_LETTERS: dict[schedule.Pass, str] = {"forward": "F", "backward": "B"}


def lines(program: DeviceProgram) -> Iterator[str]:
    """Yields the lines of a program of several stages; none is wider than the rendering.

    Leaves out slots in the middle if there are too many.

    Args:
        program: The program.
    """
    training = any(stage.backward_cycles for stage in program.stages)
    slots = figures.slots(program)
    passes = "F and B are its forward and backward pass" if training else "F is its forward pass"
    yield from textwrap.wrap(
        f"Timeline of '{program.name}': {len(program.stages)} stages, {program.schedule} schedule, "
        f"{program.micro_batches} micro-batches in {len(slots)} slots. A number is that of a "
        f"micro-batch; {passes}; at '{_WAITS}' a stage waits.",
        current().width,
    )
    yield ""
    yield from _grid(program, [_cells(slot, len(program.stages)) for slot in slots])
    yield ""
    yield from textwrap.wrap(_shares(program), current().width)


def _cells(slot: schedule.Slot, stages: int) -> list[str]:
    """Returns the pass of each stage in a slot."""
    cells = [_WAITS] * stages
    for work in slot:
        cells[work.stage] = f"{_LETTERS[work.direction]}{work.micro_batch}"
    return cells


def _grid(program: DeviceProgram, columns: Sequence[Sequence[str]]) -> Iterator[str]:
    labels = ["stage  IPU", *(f"{stage.index:<5}  {stage.ipu:>3}" for stage in program.stages)]
    width = 1 + max(len(cell) for column in columns for cell in column)
    room = (current().width - max(map(len, labels)) - 1) // width
    head: Sequence[Sequence[str]] = columns
    tail: Sequence[Sequence[str]] = ()
    middle = ""
    if len(columns) > room:
        each = (room * width - len(_LEFT_OUT) - 1) // width // 2
        head, tail, middle = columns[:each], columns[len(columns) - each :], f" {_LEFT_OUT}"
    yield labels[0]
    for row, label in enumerate(labels[1:]):
        early, late = (
            "".join(column[row].rjust(width) for column in part) for part in (head, tail)
        )
        yield f"{label} {early}{middle}{late}"


def _shares(program: DeviceProgram) -> str:
    timeline = program.timeline
    whole = max(1, timeline.cycles)
    works = ", ".join(
        f"IPU {ipu.ipu} works {percent(busy / whole)}"
        for ipu, busy in zip(program.ipus, timeline.busy_cycles, strict=True)
    )
    links = percent(timeline.link_cycles / whole)
    return (
        f"Of {timeline.cycles:,} cycles {works}; links take {links}. The bubble, in which IPUs "
        f"wait for other stages, is {percent(timeline.bubble_share)} of their time."
    )
