"""Processes that end with the one that started them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Callable
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def ending_with_parent(with_signal: signal.Signals) -> Callable[[], None]:
    """Returns what a new process calls so that the end of its parent ends it, too.

    Args:
        with_signal: The signal that it gets then.
    """
    prctl = ctypes.CDLL(None).prctl

    def call() -> None:
        prctl(_PR_SET_PDEATHSIG, int(with_signal), 0, 0, 0)

    return call


def end_rest_of_group() -> None:
    """Kills the other processes of this one's group, such as workers of a program that ended."""
    group, own = os.getpgrp(), os.getpid()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != own:
            with contextlib.suppress(OSError):
                if os.getpgid(int(folder.name)) == group:
                    os.kill(int(folder.name), signal.SIGKILL)


def status_of(returncode: int) -> int:
    """Returns the exit status that a shell gives a process: 128 more than a signal that ended it.

    Args:
        returncode: As `subprocess` has it, below 0 for a signal.
    """
    return returncode if returncode >= 0 else 128 - returncode


def ending(returncode: int) -> str:
    """Returns how a process ended, in words.

    Args:
        returncode: As `subprocess` has it.
    """
    if returncode >= 0:
        return f"ended with status {returncode}"
    with contextlib.suppress(ValueError):
        return f"was killed by signal {-returncode} ({signal.Signals(-returncode).name})"
    return f"was killed by signal {-returncode}"
