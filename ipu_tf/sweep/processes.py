"""Processes that estimate points side by side, one on each core."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Sequence
from typing import IO

from ipu_tf.base import codec
from ipu_tf.sweep.point import Outcome, Point, encoded
from ipu_tf.sweep.worker import IN_WORKER

_TAIL = 500
"""Characters of a worker's error output that are shown if it ends."""


def outcomes_of(
    points: Sequence[Point], *, model: str, training: bool, processes: int
) -> Generator[tuple[Point, Outcome], None, None]:
    """Yields points with their outcomes as they come; ends its processes when it is closed.

    A process that ends without an answer, for lack of memory say, makes the point fail; another
    one takes its place.

    Args:
        points: The points.
        model: Name of the function that makes the model, as for `model_of`.
        training: Whether to estimate training steps.
        processes: How many run side by side.
    """
    tasks: queue.SimpleQueue[Point] = queue.SimpleQueue()
    for point in points:
        tasks.put(point)
    outcomes: queue.SimpleQueue[tuple[Point, Outcome]] = queue.SimpleQueue()
    workers = [_Worker(model=model, training=training) for _ in range(min(processes, len(points)))]
    for worker in workers:
        threading.Thread(target=worker.run, args=(tasks, outcomes), daemon=True).start()
    try:
        for _ in points:
            yield outcomes.get()
    finally:
        for worker in workers:
            worker.stop()


class _Worker:
    """One process, started again if it ends.

    Args:
        model: Name of the function that makes the model.
        training: Whether to estimate training steps.
    """

    def __init__(self, *, model: str, training: bool) -> None:
        self._head = {"model": model, "training": training, "path": _module_path()}
        self._process: subprocess.Popen[str] | None = None
        self._errors: IO[bytes] | None = None
        self._is_stopped = False
        self._lock = threading.Lock()

    def run(
        self,
        tasks: queue.SimpleQueue[Point],
        outcomes: queue.SimpleQueue[tuple[Point, Outcome]],
    ) -> None:
        """Estimates points until none wait, or it is stopped."""
        while not self._is_stopped:
            try:
                point = tasks.get_nowait()
            except queue.Empty:
                break
            outcomes.put((point, self._outcome(point)))
        self.stop()

    def stop(self) -> None:
        """Ends the process."""
        with self._lock:
            self._is_stopped = True
            if self._process is not None:
                self._process.kill()
                self._process.wait()
                for pipe in (self._process.stdin, self._process.stdout):
                    if pipe is not None:
                        pipe.close()
                self._process = None
            if self._errors is not None:
                self._errors.close()
                self._errors = None

    def _outcome(self, point: Point) -> Outcome:
        process = self._child()
        if process is None:
            return Outcome(error="the sweep was stopped")
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(encoded(point)) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except (OSError, ValueError):  # It ended, or is stopped.
            answer = ""
        if answer:
            return codec.decode(Outcome, json.loads(answer))
        return Outcome(error=self._last_words())

    def _child(self) -> subprocess.Popen[str] | None:
        """Returns the process, started if there is none; None if it is stopped."""
        with self._lock:
            if self._is_stopped:
                return None
            if self._process is None:
                self._errors = tempfile.TemporaryFile()  # noqa: SIM115 # `stop` closes it.
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "ipu_tf.sweep.worker"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._errors,
                    env={
                        **os.environ,
                        IN_WORKER: "1",
                        "PYTHONPATH": os.pathsep.join(_module_path()),
                    },
                    text=True,
                )
                assert self._process.stdin is not None
                self._process.stdin.write(json.dumps(self._head) + "\n")
                self._process.stdin.flush()
            return self._process

    def _last_words(self) -> str:
        """Returns how the process ended, and lets another one take its place."""
        with self._lock:
            process, errors = self._process, self._errors
            self._process, self._errors = None, None
        if process is None or errors is None:
            return "the sweep was stopped"
        code = process.wait()
        errors.seek(0)
        text = errors.read().decode(errors="replace")[-_TAIL:].strip()
        errors.close()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        return f"its process ended with {code}, for lack of memory perhaps: {text or 'no output'}"


def _module_path() -> list[str]:
    """Returns the folders in which this process finds modules, the current one by its name."""
    return [os.path.abspath(folder) for folder in sys.path]


def cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def is_worker() -> bool:
    """Returns whether this process is a worker of a sweep."""
    return bool(os.environ.get(IN_WORKER))


def importable(model: object) -> str | None:
    """Returns the name by which another process finds a function, None if it finds it by none."""
    name, module = getattr(model, "__qualname__", ""), getattr(model, "__module__", "")
    if not name or "<" in name:
        return None
    if module != "__main__":
        return f"{module}:{name}"
    path = getattr(sys.modules["__main__"], "__file__", None)
    return f"{os.path.abspath(path)}:{name}" if path else None
