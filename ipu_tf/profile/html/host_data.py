"""The host timeline as plain data for a page."""

from __future__ import annotations

from collections.abc import Sequence

from ipu_tf.profile.figures.host_timeline import HostTimeline, kind_seconds
from ipu_tf.programs.program import Program


def host_data(host: HostTimeline, programs: Sequence[Program]) -> dict[str, object]:
    """Returns the spans of the host as columns, and the device's time for one of each kind."""
    return {
        "dropped": host.dropped,
        "tracks": list(host.tracks),
        "kinds": [[kind.name, kind.category, kind.program, kind.steps] for kind in host.kinds],
        "spanKinds": host.span_kinds.tolist(),
        "spanTracks": host.span_tracks.tolist(),
        "beginNs": host.begin_ns.tolist(),
        "durationNs": host.duration_ns.tolist(),
        "ownNs": host.own_ns.tolist(),
        "kindSeconds": kind_seconds(host, programs),
    }
