"""The file of a sweep: outcomes as lines of JSON, so that a killed sweep goes on where it was."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from ipu_tf.base import codec
from ipu_tf.base.printable import printable
from ipu_tf.sweep.point import Outcome, Point, encoded

_FORMAT = "ipu_tf sweep"
_VERSION = 1

_HEAD_BYTES = 1 << 16
"""Bytes of the first line at most; a longer one is of another file."""


class SweepFileError(ValueError):
    """A file that holds no sweep, another one, or one that is running."""


class Store:
    """The outcomes of a sweep in a file; a context that holds a lock on it.

    Args:
        path: The file; made if it does not exist.
        head: The settings that all its points share: model, training and release.

    Raises:
        SweepFileError: The file holds something else, or another process writes to it.
    """

    def __init__(self, path: str | os.PathLike[str], head: Mapping[str, object]) -> None:
        self._path = Path(path)
        self._head = {"format": _FORMAT, "version": _VERSION, **head}
        self._file: IO[bytes] | None = None
        self.outcomes: dict[str, Outcome] = {}

    def __enter__(self) -> Store:
        self._file = self._path.open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise SweepFileError(
                f"{self._path} is in use by another sweep. Wait for it, or give another file."
            ) from None
        try:
            self._load()
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, point: Point, outcome: Outcome) -> None:
        """Writes an outcome."""
        self.outcomes[point.key] = outcome
        self._write({"point": encoded(point), "outcome": encoded(outcome)})

    def _load(self) -> None:
        """Reads the outcomes so far, and cuts off a line that was being written when it ended.

        Nothing is written before the whole file is known to be of this sweep.
        """
        assert self._file is not None
        self._file.seek(0)
        head = self._file.readline(_HEAD_BYTES)
        was_begun = _FORMAT.encode() in head and _line(self._head).startswith(head)
        if head and not was_begun:
            self._check(head)
        if not head.endswith(b"\n"):  # New, or killed while the head was written.
            self._file.truncate(0)
            self._write(self._head)
            return
        whole, newline, _ = self._file.read().rpartition(b"\n")
        for number, line in enumerate(whole.split(b"\n") if newline else (), 2):
            try:
                entry = printable(json.loads(line))
                point = codec.decode(Point, entry["point"], "point")
                outcome = codec.decode(Outcome, entry["outcome"], "outcome")
            except (ValueError, KeyError, TypeError) as error:
                raise SweepFileError(
                    f"{self._path}, line {number} is damaged: {error} Delete the line."
                ) from None
            self.outcomes[point.key] = outcome
        self._file.truncate(len(head) + len(whole + newline))

    def _check(self, line: bytes) -> None:
        try:
            head = json.loads(line)
        except (ValueError, RecursionError):
            head = None
        if not isinstance(head, dict) or head.get("format") != _FORMAT:
            raise SweepFileError(
                f"{self._path} holds no sweep. Give another file for the outcomes."
            )
        if head != self._head:
            differing = ", ".join(
                f"{name} {head.get(name)!r} instead of {self._head.get(name)!r}"
                for name in {**self._head, **head}
                if head.get(name) != self._head.get(name)
            )
            raise SweepFileError(
                f"{self._path} holds another sweep: {differing}. Give another file, or delete it."
            )

    def _write(self, entry: Any) -> None:
        assert self._file is not None
        try:
            self._file.write(_line(entry))
            self._file.flush()
        except OSError as error:
            with contextlib.suppress(OSError):  # Tries to write the rest once more.
                self._file.close()
            raise OSError(error.errno, error.strerror, os.fspath(self._path)) from error


def _line(entry: Any) -> bytes:
    return json.dumps(entry).encode() + b"\n"
