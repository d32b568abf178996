"""The slices of a trace: what every IPU and every thread of the host does, and when.

A run of a program on replica 0: its passes, their steps by layer, their supersteps. The steps of a
stage are shown for its first micro-batch; the passes of others are one slice each, as long.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeAlias

from ipu_tf.compiler.pipeline import schedule
from ipu_tf.profile.figures import program_figures as figures
from ipu_tf.profile.text import sections
from ipu_tf.profile.text.words import WORDS
from ipu_tf.tile_program.device_program import DeviceProgram, StageProgram
from ipu_tf.tile_program.moves import Moves
from ipu_tf.tile_program.phase import Phase
from ipu_tf.tile_program.program import Step

Details: TypeAlias = Mapping[str, int | str]

_PARTS = ("sync", "exchange", "compute", "host")
"""The parts of a superstep, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSlice:
    """A piece of work.

    Attributes:
        name: Its name.
        category: The kind of work.
        begin: When it begins, in cycles of the tile clock; of the host, in nanoseconds.
        end: When it ends.
        details: Its figures, by name.
    """

    name: str
    category: str
    begin: int
    end: int
    details: Details = field(default_factory=dict)


Slices: TypeAlias = list[TraceSlice]
"""Slices that nest, the outer ones first, in the order in which they begin."""


def device_slices(program: DeviceProgram) -> dict[int, Slices]:
    """Returns the slices of each IPU of a replica, in cycles from the beginning of a run."""
    slices_of_ipus: dict[int, Slices] = {
        ipu.ipu: [_slice(program.name, "run", 0, program.cycles)] for ipu in program.ipus
    }
    begin = _add_micro_batches(program, slices_of_ipus)
    for stages in slices_of_ipus.values():
        if program.all_reduce_cycles:
            stages.append(_slice("all-reduce", "link", begin, begin + program.all_reduce_cycles))
    _add_update(program, slices_of_ipus, begin + program.all_reduce_cycles)
    return slices_of_ipus


def _add_micro_batches(program: DeviceProgram, slices_of_ipus: dict[int, Slices]) -> int:
    """Adds the slots of the micro-batches; returns when they end."""
    slots = figures.slots(program)
    links = _link_cycles(program, slots)
    begin = 0
    for slot, link_cycles in zip(slots, links, strict=True):
        ends = collections.Counter(dict.fromkeys(slices_of_ipus, begin))
        for work in slot:
            stage = program.stages[work.stage]
            pass_slices = list(_pass_slices(program, work, ends[stage.ipu]))
            slices_of_ipus[stage.ipu] += pass_slices
            ends[stage.ipu] = pass_slices[0].end
        begin = max(ends.values())
        if link_cycles:
            for slices in slices_of_ipus.values():
                slices.append(_slice("links", "link", begin, begin + link_cycles))
        begin += link_cycles
    return begin


def _link_cycles(program: DeviceProgram, slots: Sequence[schedule.Slot]) -> Sequence[int]:
    """Returns the link cycles after each slot; in files without them, the same for all slots."""
    link_cycles = program.timeline.slot_link_cycles
    if len(link_cycles) == len(slots):
        return link_cycles
    each, remainder = divmod(program.timeline.link_cycles, max(1, len(slots)))
    return [each + (number < remainder) for number in range(len(slots))]


def _pass_slices(program: DeviceProgram, work: schedule.Work, begin: int) -> Iterator[TraceSlice]:
    stage = program.stages[work.stage]
    forward = work.direction == "forward"
    cycles = stage.forward_cycles if forward else stage.backward_cycles
    if WORDS[program.front].phases:
        yield _slice(
            f"{_prefix(program, stage)}{work.direction}, micro-batch {work.micro_batch}",
            work.direction,
            begin,
            begin + cycles,
            stage=work.stage,
            micro_batch=work.micro_batch,
        )
    else:
        yield _slice("all programs", "run", begin, begin + cycles)
    if work.micro_batch:
        return
    # Of files of earlier versions: recomputation has steps since.
    again = 0 if forward else stage.recomputed_cycles - stage.program.recomputed_cycles
    if again:
        yield _slice("recompute the forward pass", "recompute", begin, begin + again)
    yield from _phase_slices(stage, work.direction, begin + again)


def _add_update(program: DeviceProgram, slices_of_ipus: dict[int, Slices], begin: int) -> None:
    """Adds the weight update: the update of an IPU's stages, at the end of its time."""
    if not program.update_cycles:
        return
    own_cycles = dict.fromkeys(slices_of_ipus, 0)
    for stage in program.stages:
        own_cycles[stage.ipu] += stage.update_cycles
    transfer_cycles = program.update_cycles - max(own_cycles.values())
    for slices in slices_of_ipus.values():
        slices.append(_slice("update", "update", begin, begin + program.update_cycles))
        if transfer_cycles:
            slices.append(_slice("links", "link", begin, begin + transfer_cycles))
    ends = dict.fromkeys(slices_of_ipus, begin + transfer_cycles)
    for stage in program.stages:
        slices_of_ipus[stage.ipu] += _phase_slices(stage, "update", ends[stage.ipu])
        ends[stage.ipu] += stage.update_cycles


def _phase_slices(stage: StageProgram, phase: Phase, begin: int) -> Iterator[TraceSlice]:
    """Yields the slices of the steps of a phase, and of its transfers to the tiles."""
    steps = [step for step in stage.program.steps if step.phase == phase]
    for layer, group in groupby(steps, key=figures.place):
        members = list(group)
        end = begin + sum(step.cycles for step in members)
        yield _slice(layer or sections.NO_LAYER, WORDS[stage.program.front].place, begin, end)
        yield from _step_slices(members, begin)
        begin = end
    moves: Mapping[str, Moves] = {
        "stream": stage.streamed,
        "gather": stage.gathered,
        "wait for transfers": stage.waiting,
    }
    for name, of_phases in moves.items():
        if cycles := getattr(of_phases, phase):
            yield _slice(name, "link", begin, begin + cycles)
            begin += cycles


def _step_slices(steps: Iterable[Step], begin: int) -> Iterator[TraceSlice]:
    for step in steps:
        yield _slice(
            step.name,
            "step",
            begin,
            begin + step.cycles,
            opcode=step.opcode,
            op_name=step.op_name,
            repeats=step.repeats,
            flops=step.repeats * step.flops,
        )
        for superstep in step.supersteps:
            end = begin + step.repeats * superstep.total_cycles
            yield _slice(
                superstep.name,
                "superstep",
                begin,
                end,
                exchange_bytes=step.repeats * superstep.exchange_bytes,
                busy_tile_cycles=step.repeats * superstep.busy_tile_cycles,
            )
            for part in _PARTS:
                if cycles := step.repeats * getattr(superstep, f"{part}_cycles"):
                    yield _slice(part, part, begin, begin + cycles)
                    begin += cycles
            begin = end


def _prefix(program: DeviceProgram, stage: StageProgram) -> str:
    return f"stage {stage.index} " if program.is_pipeline else ""


def _slice(name: str, category: str, begin: int, end: int, **details: int | str) -> TraceSlice:
    details_with_cycles = {"cycles": end - begin} | {
        key: value for key, value in details.items() if value != ""
    }
    return TraceSlice(
        name=name, category=category, begin=begin, end=end, details=details_with_cycles
    )
