"""`ipu-tf launch PROGRAM`: the instances of a job; the same as `poprun`."""

from __future__ import annotations

import argparse

from ipu_tf.cli.command import Command
from ipu_tf.processes.launch.command import DESCRIPTION, launch
from ipu_tf.processes.launch.options import add_arguments, join_words


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the topology as JSON")
    add_arguments(parser)


def _run(options: argparse.Namespace) -> int:
    return launch(options, as_json=options.json)


LAUNCH = Command(
    name="launch",
    summary="start a job of several processes, as poprun does",
    description=DESCRIPTION,
    add_arguments=_add_arguments,
    run=_run,
    read=join_words,
)
