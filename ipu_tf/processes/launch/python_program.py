"""Runs a Python program as `python` does, except that an instance that fails ends at once.

Python would wait in MPI's finalization for the other instances, which wait for this one. A script
of the standard library alone: any Python runs it by its path.

It tells its supervisor first, which reports to the launcher: what Python does then may end the job.

Usage: python_program.py (SCRIPT | -m MODULE | -c COMMAND) [ARGUMENT ...]
"""

from __future__ import annotations

import atexit
import contextlib
import os
import runpy
import select
import signal
import sys
import traceback
import types
from types import TracebackType

STATUS_DESCRIPTOR = "IPU_TF_STATUS_DESCRIPTOR"
"""The variable with the file descriptor of the supervisor."""

_ANSWER_SECONDS = 5.0
_COMMUNICATOR = "ipu_tf.processes.communicator"
_OURS = (__file__, runpy.__file__, "<frozen runpy>")


def main() -> None:
    """Runs the program; ends the process at once with its status unless that is 0."""
    words = sys.argv[1:]
    supervisor = int(os.environ.pop(STATUS_DESCRIPTOR, "-1"))
    if supervisor >= 0:
        os.set_inheritable(supervisor, False)
    try:
        _run(words)
    except SystemExit as end:
        if end.code is None or end.code == 0:
            raise
        if not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
        _end(end.code if isinstance(end.code, int) else 1, supervisor)
    except KeyboardInterrupt:
        _end(128 + signal.SIGINT, supervisor)
    except BaseException as error:
        error = error.with_traceback(_of_program(error.__traceback__))
        if sys.excepthook is sys.__excepthook__:
            traceback.print_exception(error)
        else:
            sys.excepthook(type(error), error, error.__traceback__)
        _end(1, supervisor)


def _run(words: list[str]) -> None:
    if words[0] == "-m":
        sys.argv[:] = words[1:]
        _look_first_in(os.getcwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv[:] = ["-c", *words[2:]]
        _look_first_in("")
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        exec(compile(words[1], "<string>", "exec"), module.__dict__)
    else:
        sys.argv[:] = words
        _look_first_in(os.path.dirname(os.path.realpath(words[0])))
        runpy.run_path(words[0], run_name="__main__")


def _look_first_in(folder: str) -> None:
    """Sets where Python looks first for modules, instead of this file's folder."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


def _of_program(traceback: TracebackType | None) -> TracebackType | None:
    """Returns a traceback without our own frames and those of `runpy`: None without a program."""
    frame = traceback
    while frame is not None and frame.tb_frame.f_code.co_filename in _OURS:
        frame = frame.tb_next
    return frame


def _end(status: int, supervisor: int) -> None:
    status = status & 0xFF or 1
    _flush()
    if supervisor >= 0:
        # What the communicator says at the end lets the others fail with a message of their own.
        tells_others = int(_COMMUNICATOR in sys.modules)
        with contextlib.suppress(OSError):
            os.write(supervisor, bytes([status, tells_others]))
            if select.select([supervisor], [], [], _ANSWER_SECONDS)[0]:
                os.read(supervisor, 1)
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()
    _flush()
    os._exit(status)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


if __name__ == "__main__":
    main()
