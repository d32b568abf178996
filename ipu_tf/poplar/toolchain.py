"""The compiler of Poplar's libraries and programs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

# The host rounds as codelets do: no multiply-add is contracted.
LIBRARY_FLAGS = (
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-mavx2",
    "-mfma",
    "-mf16c",
    "-ffp-contract=off",
)
PROGRAM_FLAGS = ("-std=c++17", "-O2", "-ffp-contract=off")


class PoplarBuildError(Exception):
    """The libraries of Poplar, or a program, cannot be built; the message says why."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C++ compiler.

    Attributes:
        path: Its program.
        version: The first line of its `--version`.
    """

    path: str
    version: str

    def run(self, arguments: Sequence[str], task: str) -> None:
        """Runs the compiler.

        Args:
            arguments: The words after its name.
            task: What it makes, for the message.

        Raises:
            PoplarBuildError: It fails; the message has its words.
        """
        result = subprocess.run(
            [self.path, *arguments], capture_output=True, text=True, check=False
        )
        if result.returncode != 0:
            raise PoplarBuildError(f"{task} does not compile:\n{result.stderr.strip()}")


def find_compiler() -> Compiler:
    """Returns the compiler that `$CXX` names, else g++.

    Raises:
        PoplarBuildError: It is missing or does not run.
    """
    name = os.environ.get("CXX") or "g++"
    path = shutil.which(name)
    if path is None:
        raise PoplarBuildError(
            f"Poplar programs need a C++17 compiler, but {name!r} is not on PATH. Install g++ "
            "(Debian, Ubuntu: apt-get install g++; Fedora: dnf install gcc-c++), or set CXX to a "
            "compiler that is there."
        )
    result = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise PoplarBuildError(
            f"The C++ compiler {path} does not run. Received: {result.stderr.strip()}"
        )
    return Compiler(path, result.stdout.splitlines()[0])
