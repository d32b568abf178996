"""The progress of a sweep: nothing, lines, or a bar with the time left on a terminal."""

from __future__ import annotations

import time
from typing import Any, TextIO

from ipu_tf.sweep.point import Outcome, Point


class Progress:
    """Is told of every estimate, and shows nothing."""

    def begin(self, points: int, done: int) -> None:
        """Called once.

        Args:
            points: Points of the sweep.
            done: Points that are known from an earlier run.
        """

    def advance(self, point: Point, outcome: Outcome) -> None:
        """Called when a point is estimated."""

    def end(self) -> None:
        """Called when no more points come, also after an error."""


class Lines(Progress):
    """Writes a line for every estimate, with the time left.

    Args:
        stream: Where to.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._points = self._count = self._new = 0
        self._since = 0.0

    def begin(self, points: int, done: int) -> None:
        """Writes how many points there are."""
        self._points, self._count, self._since = points, done, time.monotonic()
        note = f", {done} known from an earlier run" if done else ""
        self._write(f"{points} points{note}")

    def advance(self, point: Point, outcome: Outcome) -> None:
        """Writes a line."""
        self._count += 1
        self._new += 1
        seconds_left = (time.monotonic() - self._since) / self._new * (self._points - self._count)
        labels = (f"{name} {value}" for name, value in point.labels().items() if value != "")
        self._write(
            f"{self._count} of {self._points}, about {seconds_left:.0f} s left: {outcome.verdict}, "
            f"{', '.join(labels)}"
        )

    def _write(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class Bar(Progress):
    """Draws a bar with the time left on a terminal.

    Args:
        stream: The terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("time left"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=Console(file=stream),
        )
        self._task: Any = None

    def begin(self, points: int, done: int) -> None:
        """Draws the bar."""
        self._task = self._bar.add_task("estimates", total=points, completed=done)
        self._bar.start()

    def advance(self, point: Point, outcome: Outcome) -> None:
        """Draws one more point."""
        del point, outcome
        self._bar.advance(self._task)

    def end(self) -> None:
        """Leaves the bar as it is."""
        self._bar.stop()


def progress_on(stream: TextIO) -> Progress:
    """Returns a bar for a terminal, lines for any other stream."""
    return Bar(stream) if stream.isatty() else Lines(stream)
