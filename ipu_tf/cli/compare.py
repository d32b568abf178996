"""`ipu-tf compare A.json B.json`: what is better and what is worse in the second report."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from ipu_tf.base.user_objects import UsageError
from ipu_tf.cli.command import Command
from ipu_tf.cli.files import check_writable, read_report, write_errors

_REGRESSION = 1


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", type=Path, metavar="A.json", help="a report's file")
    parser.add_argument("after", type=Path, metavar="B.json", help="the file to compare with it")
    parser.add_argument(
        "--max-regression",
        metavar="SHARE",
        help="exit with 1 if a program takes that much more time a sample, or memory of its "
        "fullest tile, no longer fits or is missing; such as 2%% or 0.02",
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write a page with charts")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")


def _run(options: argparse.Namespace) -> int:
    limit = None if options.max_regression is None else _share(options.max_regression)
    if options.html is not None:
        check_writable(options.html)
    from ipu_tf.profile import compare

    comparison = compare(read_report(options.before), read_report(options.after))
    if options.html is not None:
        with write_errors(options.html):
            comparison.to_html(options.html)
    worse = () if limit is None else comparison.regressions(limit)
    if options.json:
        print(json.dumps(comparison.to_dict() | {"regressions": list(worse)}, indent=1))
    else:
        print(comparison)
    for line in worse:
        print(f"regression: {line}", file=sys.stderr)
    return _REGRESSION if worse else 0


def _share(text: str) -> float:
    """Returns a share written as a number or in percent.

    Raises:
        UsageError: It is neither, or negative.
    """
    number = text.strip().removesuffix("%")
    try:
        share = float(number) / (100 if number != text.strip() else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < float("inf"):
        raise UsageError(f"--max-regression takes a share such as 2% or 0.02. Received: {text!r}.")
    return share


COMPARE = Command(
    name="compare",
    summary="compare two reports",
    description="Prints the improvements and regressions in the second of two reports, by layer, "
    "category of memory, phase and IPU. Exits with 0; with 1 if --max-regression is exceeded; with "
    "2 if a file holds no report.",
    add_arguments=_add_arguments,
    run=_run,
)
