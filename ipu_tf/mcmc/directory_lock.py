"""A lock on the directory of a run: two runs would replace each other's files."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

_LOCK = ".lock"


class ChainsInUse(RuntimeError):
    """Another run uses the directory."""


@contextlib.contextmanager
def lock(directory: Path) -> Iterator[None]:
    """Keeps other runs out of a directory; the system ends the lock of a process that is killed.

    Raises:
        ChainsInUse: Another run uses the directory.
    """
    with (directory / _LOCK).open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise ChainsInUse(
                f"Process {file.read().strip()} samples into '{directory}' at this time. Wait for "
                "it to end, or use another directory."
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
