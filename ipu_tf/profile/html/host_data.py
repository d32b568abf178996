"""The host timeline as plain data for a page."""

from __future__ import annotations

from typing import Any

from ipu_tf.profile.figures.host_timeline import HostTimeline


def host_data(host: HostTimeline) -> dict[str, Any]:
    """Returns the spans of the host as columns."""
    return {
        "dropped": host.dropped,
        "tracks": list(host.tracks),
        "kinds": [[kind.name, kind.category, kind.program, kind.steps] for kind in host.kinds],
        "spanKinds": host.span_kinds.tolist(),
        "spanTracks": host.span_tracks.tolist(),
        "beginNs": host.begin_ns.tolist(),
        "durationNs": host.duration_ns.tolist(),
    }
