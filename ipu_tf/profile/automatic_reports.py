"""Writes the reports that engine options ask for, when the process ends."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Sequence
from pathlib import Path

from ipu_tf.config import engine_options
from ipu_tf.profile.engine_options import report_folder
from ipu_tf.profile.report import Report
from ipu_tf.profile.report_formats import write_formats
from ipu_tf.profile.watching import WatchedStrategy

_FORMATS = ("json", "text", "html")

_strategies: dict[Path, list[WatchedStrategy]] = {}


def watch(strategy: WatchedStrategy) -> None:
    """Keeps a strategy for the report of its folder, if one is wanted.

    Raises:
        ValueError: POPLAR_ENGINE_OPTIONS is not valid.
    """
    folder = report_folder(engine_options())
    if folder is None or strategy in _strategies.get(folder.resolve(), ()):
        return
    strategy.record_host()
    _strategies.setdefault(folder.resolve(), []).append(strategy)
    atexit.unregister(write_now)
    atexit.register(write_now)


def write_now() -> None:
    """Writes the reports of the strategies so far, and lets go of them."""
    try:
        for folder, strategies in tuple(_strategies.items()):
            try:
                for path in write_formats(report_of(strategies), folder, _FORMATS):
                    print(f"report: {path}", file=sys.stderr)
            except OSError as error:
                print(f"report: cannot write {error.filename}: {error.strerror}", file=sys.stderr)
    finally:
        _strategies.clear()  # Not before: insights trace the programs of a strategy once more.


def report_of(strategies: Sequence[WatchedStrategy], *, insights: bool | None = None) -> Report:
    """Returns one report of several strategies, with the host timeline of the first.

    Args:
        strategies: The strategies.
        insights: As of `IPUStrategy.report`.
    """
    reports = [strategy.report(insights=insights) for strategy in strategies]
    return Report(
        programs=tuple(program for report in reports for program in report.programs),
        host=reports[0].host if reports else None,
    )
