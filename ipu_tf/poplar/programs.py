"""Poplar programs: compiled and run."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ipu_tf.poplar.libraries import installation
from ipu_tf.poplar.toolchain import PROGRAM_FLAGS, find_compiler

_SIGNAL = 128

REPORT = "IPU_TF_POPLAR_REPORT"
"""The variable that names the folder of reports to a program (profile.cc)."""


def run_program(
    files: Sequence[Path],
    *,
    flags: Sequence[str] = (),
    arguments: Sequence[str] = (),
    report: Path | None = None,
) -> int:
    """Compiles a program and runs it in the working directory; returns its exit code.

    Args:
        files: Its C++ sources. Codelets that it adds at run time are not among them.
        flags: More flags of the compiler, such as `-I` and `-l`.
        arguments: The words of its command line.
        report: The folder for the reports of its engines; None for those that its own options name.

    Raises:
        PoplarBuildError: There is no compiler, or it refuses the libraries or the program.
    """
    place = installation()
    compiler = find_compiler()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / files[0].stem
        sources = [str(file) for file in files]
        words = [*PROGRAM_FLAGS, *place.compile_flags, *sources, *flags, "-o", str(program)]
        compiler.run([*words, *place.link_flags], ", ".join(sources))
        environment = os.environ | ({REPORT: str(report)} if report is not None else {})
        command = [str(program), *arguments]
        code = subprocess.run(command, env=environment, check=False).returncode
    return code if code >= 0 else _SIGNAL - code
