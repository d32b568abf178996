"""Files that are whole at any time: written beside and renamed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from ipu_tf.base import spans
from ipu_tf.base.whole_files import written_beside
from ipu_tf.keras.training_state import StatefulModel
from ipu_tf.processes.job import acting_alone

FilePath: TypeAlias = str | os.PathLike[str]

_FILES = (".keras", ".h5", ".hdf5")
"""The ends of paths that Keras writes one file to; others are folders, or begin several names."""


@contextlib.contextmanager
def files_of(model: StatefulModel, method: str) -> Iterator[None]:
    """Marks the work of a method of a model as that of files, in the host timeline and for jobs.

    Keras makes variables on the way; instance 0 of a job may write without the others.
    """
    with spans.span(f"{model.name}.{method}", "checkpoint"), acting_alone():
        yield


@contextlib.contextmanager
def written_by(
    model: StatefulModel, method: str, path: FilePath, *, is_file: bool
) -> Iterator[FilePath]:
    """Yields the path that a method of a model writes to; see `files_of` and `whole_file`."""
    with files_of(model, method), whole_file(path, is_file=is_file) as path_to_write:
        yield path_to_write


@contextlib.contextmanager
def whole_file(path: FilePath, *, is_file: bool) -> Iterator[FilePath]:
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
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir() or target.is_dir():
        yield path  # The error is that of the writer.
        return
    # Keras finds the format by the end of the name.
    with written_beside(target, f".{os.getpid()}-{target.name}") as part:
        yield str(part)
