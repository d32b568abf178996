"""The formats in which a report is written to a folder, by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ipu_tf.base.whole_files import write_whole
from ipu_tf.profile.text.rendering import Rendering, rendering

if TYPE_CHECKING:
    from ipu_tf.profile.report import Report

Writer: TypeAlias = "Callable[[Report, Path], Path]"
"""Writes a report into a folder; returns the path of what it wrote."""


def _json(report: Report, folder: Path) -> Path:
    report.to_json(path := folder / "report.json")
    return path


def _text(report: Report, folder: Path) -> Path:
    path = folder / "report.txt"
    with rendering(Rendering()):
        write_whole(path, report.summary() + "\n")
    return path


def _html(report: Report, folder: Path) -> Path:
    report.to_html(path := folder / "report.html")
    return path


def _perfetto(report: Report, folder: Path) -> Path:
    report.to_perfetto(path := folder / "report.pftrace")
    return path


def _xplane(report: Report, folder: Path) -> Path:
    return report.to_xplane(folder)


def _csv(report: Report, folder: Path) -> Path:
    report.to_csv(path := folder / "tables")
    return path


FORMATS: Mapping[str, Writer] = {
    "json": _json,
    "text": _text,
    "html": _html,
    "perfetto": _perfetto,
    "xplane": _xplane,
    "csv": _csv,
}
"""The writers; the first format is the one that `Report.from_json` reads."""


def check_formats(
    formats: Iterable[str], choices: Iterable[str] = FORMATS, argument: str = "formats"
) -> tuple[str, ...]:
    """Returns the names of formats.

    Raises:
        ValueError: One of them is unknown.
    """
    choices, names = tuple(choices), tuple(formats)
    if isinstance(formats, str) or not set(names) <= set(choices):
        raise ValueError(
            f"`{argument}` takes a list of {', '.join(map(repr, choices))}. Received: {formats!r}."
        )
    return names


def write_formats(
    report: Report, folder: str | os.PathLike[str], formats: Iterable[str]
) -> tuple[Path, ...]:
    """Writes a report to a folder, which is made if it does not exist; returns the paths.

    Args:
        report: The report.
        folder: The folder. Files of an earlier report are replaced.
        formats: Keys of `FORMATS`.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    return tuple(FORMATS[name](report, Path(folder)) for name in formats)
