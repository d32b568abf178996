"""The folder in which the instances of a host keep what one of them has made for all.

It belongs to one job and one user. What is in it is pickled, since only the job's own processes
write there; nothing reads such a folder of another job.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import pickle
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TypeVar

from ipu_tf.base.whole_files import write_whole

FOLDER = "IPU_TF_JOB_FOLDER"
"""The environment variable with the folder of this job on this host."""

_LOG = logging.getLogger(__name__)
_PRIVATE = 0o700

_MadeT = TypeVar("_MadeT")


def make_job_folder(token: str) -> Path | None:
    """Returns the folder of a job on this host, made if another instance has not done it.

    Args:
        token: What tells the job from others.

    Returns:
        None if there is none: the disk is full, or the folder is another user's.
    """
    # Hosts may share the folder of temporary files.
    folder = Path(tempfile.gettempdir()) / f"ipu_tf-job-{token}-{socket.gethostname()}"
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=_PRIVATE)
        return folder if _is_own(folder) else None
    except OSError:
        return None


def remove_job_folder(folder: Path) -> None:
    """Removes a folder of `make_job_folder` with all that it holds."""
    shutil.rmtree(folder, ignore_errors=True)


class JobFolder:
    """What the instances of a host share.

    Args:
        folder: A folder that only this user may enter.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str, make: Callable[[], _MadeT]) -> _MadeT:
        """Returns what `make` returns in one of the instances; the others wait for it.

        Errors of `make` are not shared: each instance that asks raises its own. Without the folder,
        which ends with the job, and on a full disk every instance makes its own; the log says so.

        Args:
            key: A name that is the same for equal arguments of `make`.
            make: Makes a value that can be pickled.
        """
        file = self._folder / key
        try:
            lock = _lock(self._folder / f"{key}.lock")
        except OSError as error:
            _tell(key, error)
            return make()
        with lock:
            with contextlib.suppress(FileNotFoundError):
                value: _MadeT = pickle.loads(file.read_bytes())
                return value
            result = make()
            try:
                write_whole(file, pickle.dumps(result, pickle.HIGHEST_PROTOCOL))
            except OSError as error:
                _tell(key, error)
            return result


def job_folder(environment: Mapping[str, str] = os.environ) -> JobFolder | None:
    """Returns the folder of this process's job on this host; None without one.

    Args:
        environment: The variables of the environment.
    """
    name = environment.get(FOLDER, "")
    return JobFolder(Path(name)) if name and _is_own(Path(name)) else None


def _is_own(folder: Path) -> bool:
    """Returns whether a path is a folder, not a link to one, that only this user may enter."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    mode = stat.S_IMODE(status.st_mode)
    return stat.S_ISDIR(status.st_mode) and mode == _PRIVATE and status.st_uid == os.geteuid()


def _lock(path: Path) -> IO[bytes]:
    """Returns a file whose lock is held until it is closed."""
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:
        file.close()
        raise
    return file


def _tell(key: str, error: OSError) -> None:
    _LOG.warning("Other instances of this host make %s themselves: %s", key, error)
