"""The communicator of this process, which lives as long as the process does."""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from types import TracebackType

from ipu_tf.processes.communicator import Communicator
from ipu_tf.processes.instances import instances

_lock = threading.Lock()
_communicator: Communicator | None = None
_failure = ""
_ALONE: ContextVar[bool] = ContextVar("ipu_tf.acting_alone", default=False)


def communicator() -> Communicator | None:
    """Returns the communicator of a job of several processes, None where this is the only one.

    Raises:
        CollectiveError: Not all processes start MPI within the limit.
        ImportError: mpi4py is not installed.
        RuntimeError: Horovod is loaded, too.
        LaunchError: The launcher's variables contradict each other, or MPI's numbers do.
    """
    global _communicator
    if instances().count == 1:
        return None
    with _lock:
        if _communicator is None:
            _communicator = _start()
    return _communicator


@contextlib.contextmanager
def acting_alone() -> Iterator[None]:
    """Marks what this process does without the others of its job, such as writing files."""
    token = _ALONE.set(True)
    try:
        yield
    finally:
        _ALONE.reset(token)


def acts_alone() -> bool:
    """Returns whether this process acts without the others of its job."""
    return _ALONE.get()


def _start() -> Communicator:
    try:
        import mpi4py
    except ImportError as error:
        raise ImportError(
            "A job of several instances needs mpi4py and an MPI: "
            "`pip install 'ipu_tf[distributed]'` installs them."
        ) from error
    del mpi4py
    if getattr(sys.modules.get("horovod"), "__file__", None):
        raise RuntimeError(
            f"This process has imported Horovod from {sys.modules['horovod'].__file__}, and both "
            "it and ipu_tf would start MPI and exchange values of the instances. Uninstall it: "
            "under `ipu-tf run`, `import horovod.tensorflow` leads to ipu_tf's collectives then."
        )
    job = Communicator()
    _note_failures()
    atexit.register(lambda: job.close(_failure))
    return job


def _note_failures() -> None:
    """Makes the others of the job know the exception by which this process ends."""
    before = sys.excepthook

    def note(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        global _failure
        _failure = f"{kind.__name__}: {error}"
        before(kind, error, traceback)

    sys.excepthook = note
