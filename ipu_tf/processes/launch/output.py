"""Passes on what a program writes, line by line."""

from __future__ import annotations

import os
from collections import deque

_LINE_ENDS = (b"\n", b"\r")


class LineRelay:
    """Writes whole lines, so that those of several instances do not mix.

    Args:
        descriptor: The file descriptor that gets them; None discards them.
        tag: What each line begins with.
        last_lines: Gets each line, too, without its end.
    """

    def __init__(self, descriptor: int | None, tag: bytes, last_lines: deque[str]) -> None:
        self._descriptor = descriptor
        self._tag = tag
        self._last_lines = last_lines
        self._partial = b""
        self._is_in_line = False

    def feed(self, data: bytes) -> None:
        """Takes the next bytes of the program; the end of a line waits for the rest."""
        lines = (self._partial + data).splitlines(keepends=True)
        is_open = bool(lines) and not lines[-1].endswith(_LINE_ENDS)
        self._partial = lines.pop() if is_open else b""
        self._write(lines)

    def flush(self) -> None:
        """Writes a line that has no end so far, such as a prompt or a bar of progress."""
        partial, self._partial = self._partial, b""
        if partial:
            self._write([partial])

    def _write(self, lines: list[bytes]) -> None:
        pieces = []
        for line in lines:
            pieces += [line] if self._is_in_line else [self._tag, line]
            self._is_in_line = not line.endswith(_LINE_ENDS)
            if text := line.decode(errors="replace").rstrip():
                self._last_lines.append(text)
        if self._descriptor is not None:
            write_all(self._descriptor, b"".join(pieces))


def write_all(descriptor: int, data: bytes) -> None:
    """Writes all bytes to a file descriptor."""
    while data:
        data = data[os.write(descriptor, data) :]
