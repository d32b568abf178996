"""Writes traces of reports to files."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

from ipu_tf.base.whole_files import write_whole
from ipu_tf.profile.figures.host_timeline import HostTimeline
from ipu_tf.profile.traces.perfetto import perfetto_trace
from ipu_tf.profile.traces.tracks import tracks
from ipu_tf.profile.traces.xplane import xspace
from ipu_tf.programs.program import Program

_PLUGIN = Path("plugins") / "profile"


def write_perfetto(
    programs: tuple[Program, ...], host: HostTimeline | None, path: str | os.PathLike[str]
) -> None:
    """Writes a trace for ui.perfetto.dev; replaces the file if it exists."""
    write_whole(path, perfetto_trace(tracks(programs, host)))


def write_xplane(
    programs: tuple[Program, ...],
    host: HostTimeline | None,
    log_dir: str | os.PathLike[str],
    run: str | None = None,
) -> Path:
    """Writes a trace where TensorBoard's profile plugin finds it, and returns its path.

    Args:
        programs: The programs of a report.
        host: Its host timeline.
        log_dir: The folder that TensorBoard is started with.
        run: The name of the run; by default the current date and time.
    """
    run = run or time.strftime("%Y_%m_%d_%H_%M_%S")
    folder = Path(log_dir) / _PLUGIN / run
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{platform.node() or 'host'}.xplane.pb"
    began = host.began_unix_ns if host is not None else 0
    write_whole(path, xspace(tracks(programs, host), began_unix_ns=began))
    return path
