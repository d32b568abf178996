"""The host timeline as text: where the host's time goes, beside the modelled time of the device."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator

from ipu_tf.base.spans import CATEGORIES, Category, Span
from ipu_tf.profile.figures import program_figures as figures
from ipu_tf.profile.figures.host_timeline import HostTimeline
from ipu_tf.profile.text.table import table
from ipu_tf.profile.text.units import duration, percent
from ipu_tf.programs.program import Program

_NS_PER_S = 1e9


def host_lines(host: HostTimeline, programs: Iterable[Program]) -> Iterator[str]:
    """Yields a table of the host's time by category, and the device's time for the same steps.

    The time of a span counts without that of the spans inside it, on its track.

    Args:
        host: The timeline.
        programs: The programs of the same report.
    """
    spans = list(host.spans)
    own_ns = own_times(spans)
    count = collections.Counter(span.category for span in spans)
    whole = max(1, sum(own_ns.values()))
    found = [category for category in CATEGORIES if count[category]]
    if not found:
        yield "The host timeline is empty."
        return
    rows = [
        (
            name,
            f"{count[name]:,}",
            duration(own_ns[name] / _NS_PER_S),
            percent(own_ns[name] / whole),
        )
        for name in found
    ]
    shares = [own_ns[name] / whole for name in found]
    yield from table(("host (measured)", "spans", "time", "share"), rows, shares)
    seconds = device_seconds(spans, programs)
    if seconds:
        yield f"the device takes {duration(seconds)} for these executions, modelled"
    if host.dropped:
        yield f"the oldest {host.dropped:,} spans are missing: there was no room for them"


def own_times(spans: Iterable[Span]) -> dict[Category, int]:
    """Returns the nanoseconds of each category, without those of spans inside of others.

    Args:
        spans: The spans in the order in which they begin; those of a track nest.
    """
    found: dict[Category, int] = collections.Counter()
    open_spans: dict[str, list[Span]] = collections.defaultdict(list)
    for span in spans:
        around = open_spans[span.track]
        while around and around[-1].end_ns <= span.begin_ns:
            around.pop()
        length = span.end_ns - span.begin_ns
        found[span.category] += length
        if around:
            found[around[-1].category] -= length
        around.append(span)
    return found


def device_seconds(spans: Iterable[Span], programs: Iterable[Program]) -> float:
    """Returns the modelled seconds of the device for the steps that the host executed."""
    of_step = {
        program.name: figures.seconds(program.device) / program.device.micro_batches
        for program in programs
        if program.device is not None
    }
    return sum(
        span.steps * of_step.get(span.program, 0.0)
        for span in spans
        if span.category == "execution"
    )
