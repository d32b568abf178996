"""The host timeline of a report: what the host did while the device's time was modelled.

These are the only measured times of a report: seconds of this computer, which simulates the IPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ipu_tf.base.spans import Category, Recorder, Span
from ipu_tf.profile.figures import program_figures
from ipu_tf.programs.program import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The attributes that equal spans of a timeline share.

    Attributes:
        name: Name of the work.
        category: The kind of work.
        program: The name of the program that it is for, "" for none.
        steps: Steps that each span runs, one on every replica each; 0 if it runs none.
    """

    name: str
    category: Category
    program: str = ""
    steps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HostTimeline:
    """The spans of the host, in the order in which they begin.

    Spans of a track nest: they lie one in another, or one after another.

    Attributes:
        began_unix_ns: The time 0 of the timeline, in nanoseconds since 1970.
        dropped: Number of spans that are missing because there was no room; the oldest ones.
        tracks: The threads of the host, by name, and the waits for data.
        kinds: The kinds of spans.
        span_kinds: int64[spans], the number of each span's kind.
        span_tracks: int64[spans], the number of each span's track.
        begin_ns: int64[spans], when each span begins, in nanoseconds.
        duration_ns: int64[spans], how long each span lasts, in nanoseconds.
    """

    began_unix_ns: int
    tracks: tuple[str, ...]
    kinds: tuple[Kind, ...]
    span_kinds: NDArray[np.int64]
    span_tracks: NDArray[np.int64]
    begin_ns: NDArray[np.int64]
    duration_ns: NDArray[np.int64]
    dropped: int = 0

    def __post_init__(self) -> None:
        lengths = {
            name: len(getattr(self, name))
            for name in ("span_kinds", "span_tracks", "begin_ns", "duration_ns")
        }
        if len(set(lengths.values())) > 1:
            raise ValueError(f"HostTimeline needs lists of one length. Received: {lengths}.")
        for name, names in (("span_kinds", self.kinds), ("span_tracks", self.tracks)):
            numbers = getattr(self, name)
            if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(names):
                raise ValueError(
                    f"HostTimeline.{name} must be from 0 to {len(names) - 1}. Received: "
                    f"{numbers.min()} to {numbers.max()}."
                )
        for name in ("begin_ns", "duration_ns"):
            if getattr(self, name).min(initial=0) < 0:
                raise ValueError(
                    f"HostTimeline.{name} must not be negative. Received: "
                    f"{getattr(self, name).min()}."
                )

    @property
    def spans(self) -> Iterator[Span]:
        """The spans, with times from 0 on."""
        columns = (self.span_kinds, self.span_tracks, self.begin_ns, self.duration_ns)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for number, track, begin_ns, duration_ns in rows:
            kind = self.kinds[number]
            yield Span(
                name=kind.name,
                category=kind.category,
                track=self.tracks[track],
                begin_ns=begin_ns,
                end_ns=begin_ns + duration_ns,
                program=kind.program,
                steps=kind.steps,
            )

    @property
    def own_ns(self) -> NDArray[np.int64]:
        """The duration of each span without those of the spans inside it, int64[spans]."""
        own_duration_ns = self.duration_ns.copy()
        open_spans: dict[int, list[tuple[int, int]]] = {}
        columns = (self.span_tracks, self.begin_ns, self.duration_ns)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for number, (track, begin, duration) in enumerate(rows):
            around = open_spans.setdefault(track, [])
            while around and around[-1][1] <= begin:
                around.pop()
            if around:
                own_duration_ns[around[-1][0]] -= duration
            around.append((number, begin + duration))
        return own_duration_ns


def device_seconds(host: HostTimeline, programs: Iterable[Program]) -> float:
    """Returns the modelled seconds of the device for the steps that the host executed."""
    of_kind = kind_seconds(host, programs)
    return sum(of_kind[number] or 0.0 for number in host.span_kinds.tolist())


def kind_seconds(host: HostTimeline, programs: Iterable[Program]) -> list[float | None]:
    """Returns the modelled seconds of the device for a span of each kind; None if it runs nothing.

    Args:
        host: The timeline.
        programs: The programs of the same report.
    """
    of_step = {
        program.name: program_figures.seconds(program.device) / program.device.micro_batches
        for program in programs
        if program.device is not None
    }
    return [
        kind.steps * of_step[kind.program]
        if kind.category == "execution" and kind.steps and kind.program in of_step
        else None
        for kind in host.kinds
    ]


def timeline_of(recorder: Recorder) -> HostTimeline:
    """Returns the timeline of the spans that a recorder keeps."""
    spans = sorted(recorder.spans, key=lambda span: (span.begin_ns, -span.end_ns))
    kinds: dict[Kind, int] = {}
    tracks: dict[str, int] = {}
    numbers = []
    for span, track in zip(spans, _lanes(spans), strict=True):
        kind = Kind(name=span.name, category=span.category, program=span.program, steps=span.steps)
        numbers.append((kinds.setdefault(kind, len(kinds)), tracks.setdefault(track, len(tracks))))
    return HostTimeline(
        began_unix_ns=recorder.began_unix_ns,
        dropped=recorder.dropped,
        tracks=tuple(tracks),
        kinds=tuple(kinds),
        span_kinds=np.array([kind for kind, _ in numbers], np.int64),
        span_tracks=np.array([track for _, track in numbers], np.int64),
        begin_ns=np.array([span.begin_ns - recorder.began_ns for span in spans], np.int64),
        duration_ns=np.array([span.end_ns - span.begin_ns for span in spans], np.int64),
    )


def _lanes(spans: Sequence[Span]) -> Iterator[str]:
    """Yields the track of each span: that of its thread, or a further one where it overlaps.

    Threads may have equal names, and waits for the data of several models share one.

    Args:
        spans: The spans in the order in which they begin.
    """
    open_until: dict[str, list[list[int]]] = {}
    for span in spans:
        lanes = open_until.setdefault(span.track, [])
        for ends in lanes:
            while ends and ends[-1] <= span.begin_ns:
                ends.pop()
        free = (n for n, ends in enumerate(lanes) if not ends or span.end_ns <= ends[-1])
        number = next(free, len(lanes))
        if number == len(lanes):
            lanes.append([])
        lanes[number].append(span.end_ns)
        yield span.track if number == 0 else f"{span.track} ({number + 1})"
