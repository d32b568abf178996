"""Files that are written whole or not at all: beside their place first, then renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Yields a file to write, which takes the place of `path` when the block ends.

    If the block raises, or the disk is full, `path` is as it was before. Links are followed, and
    the permissions of a file that exists stay. Pipes and devices are written directly.

    Args:
        path: The file; replaced if it exists.

    Raises:
        OSError: It cannot be written; the error names `path`.
    """
    place = Path(os.path.realpath(path))
    try:
        if place.exists() and not place.is_file() and not place.is_dir():
            with place.open("wb") as file:
                yield file
            return
        _check(place)
        with written_beside(place, f".{secrets.token_hex(8)}.unfinished") as draft:
            with draft.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if place.exists():
                shutil.copymode(place, draft)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), os.fspath(path)) from error


@contextlib.contextmanager
def written_beside(place: Path, name: str) -> Iterator[Path]:
    """Yields the path of a file to write, which takes the place of another when the block ends.

    If the block raises, the file is removed, and the other one is as it was before.

    Args:
        place: The other file; it need not exist.
        name: Name of the file to write, in the same folder.
    """
    path = place.with_name(name)
    try:
        yield path
        path.replace(place)
    except BaseException:
        with contextlib.suppress(OSError):  # The first error says why.
            path.unlink(missing_ok=True)
        raise


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Writes a file whole, text as UTF-8; see `whole_file`."""
    with whole_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def _check(place: Path) -> None:
    """Raises what opening a file in place would raise, which renaming would not."""
    if place.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if place.exists() and not os.access(place, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
