"""`ipu-tf poplar-config`: where Poplar's headers and libraries are."""

from __future__ import annotations

import argparse
import json
import shlex

from ipu_tf.base.user_objects import UsageError
from ipu_tf.cli.command import Command


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--env", action="store_true", help='print exports: eval "$(...)"')
    kind.add_argument("--cflags", action="store_true", help="print what compiles a program")
    kind.add_argument("--libs", action="store_true", help="print what links a program")
    kind.add_argument("--json", action="store_true", help="print all as JSON")


def _run(options: argparse.Namespace) -> int:
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
    add_arguments=_add_arguments,
    run=_run,
)
