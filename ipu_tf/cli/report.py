"""`ipu-tf report A.json`: the report of a file as text, or in other formats."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from ipu_tf.cli.command import Command
from ipu_tf.cli.files import check_writable, check_writable_folder, read_report, write_errors
from ipu_tf.cli.output import add_json, figures_of, print_json, print_text


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="a report, as report.to_json writes it")
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write a page with charts instead of text"
    )
    parser.add_argument("--perfetto", type=Path, metavar="FILE", help="write a Perfetto trace")
    parser.add_argument("--xplane", type=Path, metavar="DIR", help="write a TensorBoard profile")
    parser.add_argument("--csv", type=Path, metavar="DIR", help="write the tables as CSV")
    parser.add_argument("--plans", action="store_true", help="list the plan of every tile op")
    parser.add_argument("--timeline", action="store_true", help="print the stages of pipelines")
    add_json(parser)


def _run(options: argparse.Namespace) -> int:
    for path in (options.html, options.perfetto):
        if path is not None:
            check_writable(path)
    for path in (options.xplane, options.csv):
        if path is not None:
            check_writable_folder(path)
    report = read_report(options.file)
    writers: dict[str, tuple[Callable[[Path], object], str]] = {
        "html": (report.to_html, "open it in a browser."),
        "perfetto": (report.to_perfetto, "open it in https://ui.perfetto.dev."),
        "xplane": (report.to_xplane, "run `tensorboard --logdir` on it."),
        "csv": (report.to_csv, "open the tables in it."),
    }
    paths = {name: path for name in writers if (path := getattr(options, name)) is not None}
    for name, path in paths.items():
        write, advice = writers[name]
        with write_errors(path):
            write(path)
        if not options.json:
            print(f"Wrote {path}: {advice}")
    if options.json:
        print_json(figures_of(report))
    elif options.timeline:
        print_text(report.timeline)
    elif not paths:
        print_text(lambda: report.summary(plans=options.plans))
    return 0


REPORT = Command(
    name="report",
    summary="show a report file as text, or write it as a page, a trace or tables",
    description="Prints the report that a file holds. With --html, --perfetto, --xplane or --csv "
    "it writes these instead; the page opens without a network.",
    add_arguments=_add_arguments,
    run=_run,
)
