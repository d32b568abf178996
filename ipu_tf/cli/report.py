"""`ipu-tf report A.json`: the report of a file as text, or as a page."""

from __future__ import annotations

import argparse
from pathlib import Path

from ipu_tf.cli.command import Command
from ipu_tf.cli.files import read_report, written


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="a report, as report.to_json writes it")
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write a page with charts instead of text"
    )
    parser.add_argument("--plans", action="store_true", help="list the plan of every tile op")


def _run(options: argparse.Namespace) -> int:
    report = read_report(options.file)
    if options.html is None:
        print(report.summary(plans=options.plans))
        return 0
    with written(options.html):
        report.to_html(options.html)
    print(f"Wrote {options.html}: open it in a browser.")
    return 0


REPORT = Command(
    name="report",
    summary="show a report file as text or as a page with charts",
    description="Prints the report that a file holds, or writes it as one HTML file that opens "
    "without a network.",
    add_arguments=_add_arguments,
    run=_run,
)
