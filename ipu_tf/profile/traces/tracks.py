"""The tracks of a report's trace: one for each IPU and each thread of the host, in one time.

A program's run begins when the host first executes it, if the report has a host timeline, and
not before the programs in front of it have ended: the device's time is modelled and shorter than
that of the host, which simulates it.
"""

from __future__ import annotations

import collections
import dataclasses
from dataclasses import dataclass
from typing import Literal

from ipu_tf.profile.figures.host_timeline import HostTimeline
from ipu_tf.profile.traces.trace_slices import Slices, TraceSlice, device_slices
from ipu_tf.programs.program import Program
from ipu_tf.tile_program.device_program import DeviceProgram

_PS_PER_S = 10**12
_PS_PER_NS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """The slices of one IPU, or of one thread of the host.

    Attributes:
        name: Its name.
        place: Whether it is one of the device or of the host.
        number: The number of the IPU, or of the thread.
        slices: Its slices, in picoseconds; those that take no time are left out.
    """

    name: str
    place: Literal["device", "host"]
    number: int
    slices: Slices


def tracks(programs: tuple[Program, ...], host: HostTimeline | None) -> list[Track]:
    """Returns the tracks of a report: those of the device, then those of the host."""
    first_runs = _first_runs(host)
    of_ipus: dict[int, Slices] = collections.defaultdict(list)
    now = 0
    chip = ""
    for program in programs:
        if program.device is None:
            continue
        chip = program.device.target.chip
        now = max(now, first_runs.get(program.name, 0))
        for ipu, slices in device_slices(program.device).items():
            of_ipus[ipu] += [
                _at(piece, now, program.device) for piece in slices if piece.end > piece.begin
            ]
        now += _picoseconds(program.device.cycles, program.device)
    device = [
        Track(name=f"IPU {ipu} ({chip})", place="device", number=ipu, slices=of_ipus[ipu])
        for ipu in sorted(of_ipus)
    ]
    return [*device, *_host_tracks(host)]


def _first_runs(host: HostTimeline | None) -> dict[str, int]:
    """Returns when each program is executed first, in picoseconds."""
    begins: dict[str, int] = {}
    for span in host.spans if host is not None else ():
        if span.category == "execution":
            begins.setdefault(span.program, span.begin_ns * _PS_PER_NS)
    return begins


def _at(piece: TraceSlice, begin_ps: int, program: DeviceProgram) -> TraceSlice:
    begin, end = (begin_ps + _picoseconds(cycle, program) for cycle in (piece.begin, piece.end))
    return dataclasses.replace(piece, begin=begin, end=end)


def _picoseconds(cycles: int, program: DeviceProgram) -> int:
    return round(cycles * _PS_PER_S / program.target.clock_hz)


def _host_tracks(host: HostTimeline | None) -> list[Track]:
    if host is None:
        return []
    slices: dict[str, Slices] = {name: [] for name in host.tracks}
    for span in host.spans:
        if span.end_ns == span.begin_ns:
            continue
        details: dict[str, int | str] = {"program": span.program} if span.program else {}
        details |= {"steps": span.steps} if span.steps else {}
        slices[span.track].append(
            TraceSlice(
                name=span.name,
                category=span.category,
                begin=span.begin_ns * _PS_PER_NS,
                end=span.end_ns * _PS_PER_NS,
                details=details,
            )
        )
    return [
        Track(name=name, place="host", number=number, slices=own_slices)
        for number, (name, own_slices) in enumerate(slices.items())
    ]
