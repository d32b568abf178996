"""The page of a report: summary, memory, liveness, execution, tiles, operations, plans and more."""

from __future__ import annotations

from collections.abc import Sequence

from ipu_tf.profile.figures.host_timeline import HostTimeline
from ipu_tf.profile.html.host_data import host_data
from ipu_tf.profile.html.page import page
from ipu_tf.profile.html.program_data import program_data
from ipu_tf.programs.program import Program

_SCRIPTS = (
    "web/model.js",
    "web/patterns.js",
    "web/views/summary.js",
    "web/views/numerics.js",
    "web/views/memory.js",
    "web/views/liveness.js",
    "web/views/flame.js",
    "web/views/step_tiles.js",
    "web/views/execution.js",
    "web/views/tiles.js",
    "web/views/operations.js",
    "web/views/plans.js",
    "web/views/pipeline.js",
    "web/views/host.js",
    "web/report.js",
)


def report_page(
    programs: Sequence[Program], *, notes: Sequence[str], host: HostTimeline | None, text: str
) -> str:
    """Returns a report as the text of one self-contained HTML file.

    Args:
        programs: The programs of the report.
        notes: Caveats about all of them.
        host: The timeline of the host; None if it was not recorded.
        text: The report as text, for readers without scripts.
    """
    names = ", ".join(dict.fromkeys(program.name for program in programs))
    title = f"{names[:100]} - report of ipu_tf" if names else "Report of ipu_tf"
    figures = {
        "title": title,
        "notes": list(notes),
        "programs": list(map(program_data, programs)),
        "host": None if host is None else host_data(host, programs),
    }
    return page(title=title, data=figures, scripts=_SCRIPTS, without_scripts=text)
