"""`ipu-tf validate FILE.json`: how far the model is off measured points."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from ipu_tf.calibration.compare import compare
from ipu_tf.calibration.comparison_text import reasons, to_json, to_text
from ipu_tf.calibration.predict import KINDS, Predictor
from ipu_tf.calibration.records import RecordError, load_records


def main(argv: Sequence[str] | None = None, kinds: Mapping[str, Predictor] = KINDS) -> int:
    """Prints the comparison of a file; returns 0, or 2 if the file cannot be used.

    Args:
        argv: Arguments after the command's name; those of the process by default.
        kinds: The predictor of every known kind.
    """
    parser = argparse.ArgumentParser(prog="ipu-tf validate", description=__doc__)
    parser.add_argument(
        "file", help="a JSON list of records, or an object of records and corrections"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print a list of {id, predicted, measured, corrected_by} instead",
    )
    arguments = parser.parse_args(argv)
    try:
        records = load_records(arguments.file)
    except RecordError as error:
        print(f"ipu-tf validate: {error}", file=sys.stderr)
        return 2
    comparison = compare(records, kinds)
    if arguments.json:
        for line in reasons(comparison):
            print(line, file=sys.stderr)
        print(to_json(comparison))
    else:
        print(to_text(comparison))
    return 0


if __name__ == "__main__":
    sys.exit(main())
