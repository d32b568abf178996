"""Files that are whole at any time: written beside and renamed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_FILES = (".keras", ".h5", ".hdf5")
"""The ends of paths that Keras writes one file to; others are folders, or begin several names."""


@contextlib.contextmanager
def written_whole(path: Any, *, is_file: bool) -> Iterator[Any]:
    """Yields the path to write a file to, which replaces the one of the given path at the end.

    A process that is killed, or that finds the disk full, leaves the earlier file as it is.

    Args:
        path: Where the file is to be.
        is_file: Whether a single file of that path is written. Otherwise, and for a path that is
            not on this machine or not that of a file of Keras, the path itself is yielded.
    """
    is_local = isinstance(path, str | os.PathLike) and "://" not in str(path)
    if not is_file or not is_local or not str(path).endswith(_FILES):
        yield path
        return
    whole = Path(os.path.realpath(path))
    if not whole.parent.is_dir() or whole.is_dir():
        yield path  # The error is that of the writer.
        return
    part = whole.with_name(f".{os.getpid()}-{whole.name}")
    try:
        yield str(part)
        part.replace(whole)
    finally:
        part.unlink(missing_ok=True)
