"""`ipu-tf poplar FILE.cpp...` and `ipu-tf poplar-config`: C++ programs for Poplar."""

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
        code = run_program(files, flags=shlex.split(options.flags), arguments=words[end + 1 :])
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


def _add_config_arguments(parser: argparse.ArgumentParser) -> None:
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--env", action="store_true", help='print exports: eval "$(...)"')
    kind.add_argument("--cflags", action="store_true", help="print what compiles a program")
    kind.add_argument("--libs", action="store_true", help="print what links a program")
    kind.add_argument("--json", action="store_true", help="print all as JSON")


def _run_config(options: argparse.Namespace) -> int:
    from ipu_tf.poplar import PoplarBuildError, installation

    try:
        place = installation()
    except PoplarBuildError as error:
        raise UsageError(error) from error
    if options.env:
        for name, folder in place.environment.items():
            print(f"export {name}={shlex.quote(folder)}${{{name}:+:${name}}}")
    elif options.cflags:
        print(shlex.join(place.compile_flags))
    elif options.libs:
        print(shlex.join(place.link_flags))
    elif options.json:
        flags = {"cflags": list(place.compile_flags), "libs": list(place.link_flags)}
        print(json.dumps({"prefix": str(place.prefix), "env": place.environment} | flags, indent=1))
    else:
        print(place.prefix)
    return 0


POPLAR_CONFIG = Command(
    name="poplar-config",
    summary="print where Poplar's headers and libraries are",
    description="Prints the folder of Poplar's headers and libraries, built first if they are "
    "missing, or what compilers and Makefiles need to find them.",
    add_arguments=_add_config_arguments,
    run=_run_config,
)
