"""`ipu-tf validate FILE.json`: how far the model is off measured points."""

from __future__ import annotations

import argparse
from pathlib import Path

from ipu_tf.cli.command import Command


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="a JSON file of records")
    parser.add_argument("--json", action="store_true", help="print every prediction, as JSON")


def _run(options: argparse.Namespace) -> int:
    from ipu_tf.calibration import validate
    from ipu_tf.validation import PREDICTORS

    words = [str(options.file), *(["--json"] if options.json else [])]
    return validate.main(words, PREDICTORS)


VALIDATE = Command(
    name="validate",
    summary="predict measured figures and print the errors",
    description="Predicts every record of a file of measurements and prints the errors.",
    add_arguments=_add_arguments,
    run=_run,
)
