"""The host timeline as text: where the host's time goes, beside the modelled time of the device."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator

from ipu_tf.base.spans import CATEGORIES, Category
from ipu_tf.profile.figures.host_timeline import HostTimeline, device_seconds
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
    own_ns: collections.Counter[Category] = collections.Counter()
    count: collections.Counter[Category] = collections.Counter()
    for span, duration_ns in zip(host.spans, host.own_ns.tolist(), strict=True):
        own_ns[span.category] += duration_ns
        count[span.category] += 1
    whole = max(1, sum(own_ns.values()))
    categories = [category for category in CATEGORIES if count[category]]
    if not categories:
        yield "The host timeline is empty."
        return
    rows = [
        (
            name,
            f"{count[name]:,}",
            duration(own_ns[name] / _NS_PER_S),
            percent(own_ns[name] / whole),
        )
        for name in categories
    ]
    shares = [own_ns[name] / whole for name in categories]
    yield from table(("host (measured)", "spans", "time", "share"), rows, shares)
    seconds = device_seconds(host, programs)
    if seconds:
        yield f"the device takes {duration(seconds)} for these executions, modelled"
    if host.dropped:
        yield f"the oldest {host.dropped:,} spans are missing: there was no room for them"
