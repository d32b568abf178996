"""`ipu-tf poplar FILE.cpp...`: compile and run a C++ program for Poplar."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path

from ipu_tf.base.user_objects import UsageError
from ipu_tf.cli.command import Command


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--flags", default="", metavar="FLAGS", help='flags of the compiler: --flags="-I.. -lz"'
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FOLDER",
        help="write cycles and memory of the program's engines into this folder, at their end: "
        "report.json, .txt, .html and .pftrace",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the exit code as JSON, behind the program's words",
    )
    parser.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="FILE.cpp... [-- ARGUMENT...]",
        help="the sources of one program; behind --, the words of its command line",
    )


def _run(options: argparse.Namespace) -> int:
    from ipu_tf.poplar import PoplarBuildError, run_program

    words = list(options.words)
    end = words.index("--") if "--" in words else len(words)
    files = [Path(word) for word in words[:end]]
    if not files:
        raise UsageError("name the C++ sources of a program: ipu-tf poplar FILE.cpp...")
    for file in files:
        if not file.is_file():
            raise UsageError(f"there is no file '{file}'.")
    try:
        code = run_program(
            files,
            flags=shlex.split(options.flags),
            arguments=words[end + 1 :],
            report=options.report,
        )
    except PoplarBuildError as error:
        raise UsageError(error) from error
    if options.json:
        print(json.dumps({"exit_code": code}))
    return code


POPLAR = Command(
    name="poplar",
    summary="compile and run a C++ program for Poplar",
    description="Compiles a C++ program for Poplar with g++ and runs it on the simulated machine, "
    "in this folder. Its codelets are compiled when it adds them.",
    add_arguments=_add_arguments,
    run=_run,
)
