"""Runs a benchmark as on a processor with AVX2 and nothing beyond it, whatever this one has.

A library that is preloaded answers CPUID for all libraries of a process and of those that it
starts (`avx2_alone.cc`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.errors import CannotLimitError
from ops.toolchain import find_compiler

SOURCE = Path(__file__).with_suffix(".cc")
LIBRARY = SOURCE.parents[1] / "build" / "benchmarks" / "avx2_alone.so"
PRELOAD = "LD_PRELOAD"
_PROBE = "import ctypes, sys; sys.exit(ctypes.CDLL(None).syscall(158, 0x1012, 1) != 0)"
"""Asks Linux to let CPUID run (arch_prctl, ARCH_SET_CPUID), which fails where it cannot fault."""


def library() -> Path:
    """Compiles the library, unless it is newer than its source; returns its path.

    Raises:
        BuildError: There is no compiler.
        CannotLimitError: The processor cannot be limited.
    """
    if subprocess.run([sys.executable, "-c", _PROBE], check=False).returncode != 0:
        raise CannotLimitError(
            "This processor, or its hypervisor, does not let CPUID fault (no `cpuid_fault` in "
            "/proc/cpuinfo), so processes cannot be limited to AVX2 here. Use another machine."
        )
    if not LIBRARY.exists() or LIBRARY.stat().st_mtime < SOURCE.stat().st_mtime:
        LIBRARY.parent.mkdir(parents=True, exist_ok=True)
        command = [find_compiler()[0], "-std=c++17", "-O1", "-shared", "-fPIC", str(SOURCE)]
        subprocess.run([*command, "-o", str(LIBRARY)], check=True)
    return LIBRARY


def is_limited() -> bool:
    """Whether this process runs with the library."""
    return str(LIBRARY) in _preloaded()


def restart(arguments: Sequence[str]) -> None:
    """Replaces this process by `python -m benchmarks` with these arguments, limited to AVX2.

    Raises:
        BuildError: There is no compiler.
        CannotLimitError: The processor cannot be limited.
    """
    command = [sys.executable, "-m", "benchmarks", *arguments]
    os.execve(sys.executable, command, limited_environment())


def limited_environment() -> dict[str, str]:
    """The environment of this process with the library before those that it preloads.

    Raises:
        BuildError: There is no compiler.
        CannotLimitError: The processor cannot be limited.
    """
    return os.environ | {PRELOAD: ":".join([str(library()), *_preloaded()])}


def _preloaded() -> list[str]:
    """The libraries that this process preloads. Spaces, too, may part them (ld.so(8))."""
    return os.environ.get(PRELOAD, "").replace(":", " ").split()
