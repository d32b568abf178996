"""`ipu-tf compat`: the vendor's module names in every Python of the environment."""

from __future__ import annotations

import argparse

from ipu_tf.base.user_objects import UsageError
from ipu_tf.cli.command import Command
from ipu_tf.cli.output import add_json, print_json


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument(
        "--enable", action="store_true", help="write a file into the environment that installs them"
    )
    choice.add_argument("--disable", action="store_true", help="remove that file")
    parser.add_argument(
        "--keras",
        type=int,
        choices=(2, 3),
        default=2,
        help="with --enable, the Keras of scripts and of the packages that they import: 2 for "
        "tf_keras, 3 for the one that they have; default: 2",
    )
    add_json(parser)


def _run(arguments: argparse.Namespace) -> int:
    from ipu_tf.compat import environment

    try:
        path = environment.enable(arguments.keras) if arguments.enable else environment.disable()
    except OSError as error:
        raise UsageError(str(error)) from error
    if arguments.json:
        file = None if path is None else str(path)
        print_json({"enabled": arguments.enable, "file": file})
    elif arguments.enable:
        print(f"Wrote {path}: Python now knows `tensorflow.python.ipu`.")
        if arguments.keras == 2:
            print("In every Python of this environment, `import keras` is Keras 2, by tf_keras.")
    elif path is not None:
        print(f"Removed {path}.")
    else:
        print(f"There is no {environment.path()}: nothing to remove.")
    return 0


COMPAT = Command(
    name="compat",
    summary="let every Python of the environment import the vendor's module names",
    description="Makes `from tensorflow.python import ipu` work in every Python of the "
    "environment, without `ipu-tf run`, with Keras 2 for `keras`, or takes that back.",
    add_arguments=_add_arguments,
    run=_run,
)
