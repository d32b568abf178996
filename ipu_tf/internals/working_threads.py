"""Whether threads of this process still work where they use no processor: on input and output."""

from __future__ import annotations

import sys
import threading
from collections.abc import Container
from pathlib import Path

_WAITS = frozenset({"202", "230", "35", "219", "232", "281", "43", "288"})
"""The system calls, on x86-64, of threads that wait for other threads, sleep or listen: `futex`,
`clock_nanosleep`, `nanosleep`, `restart_syscall`, `epoll_wait`, `epoll_pwait`, `accept`, `accept4`.
"""

_RUNS_PROGRAMS = "tensorflow."
"""The beginning of the names of modules that programs are called from: data is read inside."""


def any_works(*, apart_from: Container[int]) -> bool:
    """Returns whether a thread runs a program, or waits for a file, a network or a process.

    Threads that wait for other threads, sleep or listen do not work, nor do those that the system
    does not tell about, nor daemons, such as servers. Threads without Python code are left out:
    those of programs work for a caller.

    Relies on `sys._current_frames`: no public function gives the frames of other threads.

    Args:
        apart_from: Identifiers of threads that do not count.
    """
    frames = sys._current_frames()
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        if frame is None or thread.ident in apart_from:
            continue
        if frame.f_globals.get("__name__", "").startswith(_RUNS_PROGRAMS):
            return True
        if not thread.daemon and _system_call(thread.native_id) not in (None, *_WAITS):
            return True
    return False


def _system_call(native_id: int | None) -> str | None:
    """Returns the number of the system call that a thread is in, None if there or known is none."""
    try:
        number = Path(f"/proc/self/task/{native_id}/syscall").read_text().split()[0]
    except OSError:
        return None
    return number if number.isdecimal() else None
