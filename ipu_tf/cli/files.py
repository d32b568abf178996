"""Files that commands read and write, with errors for users."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ipu_tf.base.user_objects import UsageError

if TYPE_CHECKING:
    from ipu_tf.profile.report import Report


def read_report(path: Path) -> Report:
    """Returns the report that a file holds.

    Raises:
        UsageError: There is no such file, or it holds no report.
    """
    from ipu_tf.profile.data.json_format import ReportFileError
    from ipu_tf.profile.report import Report

    try:
        return Report.from_json(path)
    except ReportFileError as error:
        raise UsageError(error) from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}.") from error


def check_writable(path: Path) -> None:
    """Refuses a file that cannot be written, before what it will hold is computed.

    Raises:
        UsageError: Its folder does not exist or is not writable, or it is a folder.
    """
    if path.is_dir():
        raise UsageError(f"cannot write {path}: it is a folder.")
    if not path.parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no folder {path.parent}.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"cannot write {path}: permission denied.")


def check_writable_folder(path: Path) -> None:
    """Refuses a folder that files cannot be written to, or that cannot be made.

    Raises:
        UsageError: It, or a folder around it, is a file or not writable.
    """
    existing = next(each for each in (path, *path.parents) if each.exists())
    if not existing.is_dir():
        raise UsageError(f"cannot write {path}: {existing} is not a folder.")
    if not os.access(existing, os.W_OK):
        raise UsageError(f"cannot write {path}: permission denied.")


@contextlib.contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Turns errors of writing a file, or files of a folder, into errors for users.

    Raises:
        UsageError: A file cannot be written; the error names it.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot write {error.filename or path}: {error.strerror}.") from error
