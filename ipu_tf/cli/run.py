"""`ipu-tf run SCRIPT`: a script as `python SCRIPT` runs it, with a report of what it ran."""

from __future__ import annotations

import argparse
import contextlib
import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ipu_tf.cli.command import Command
from ipu_tf.cli.files import written
from ipu_tf.cli.output import add_json, figures_of, print_json
from ipu_tf.user_objects import UsageError

if TYPE_CHECKING:
    from ipu_tf.profile.report import Report

_FORMATS = ("json", "text")
_FAILED = 1


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--report", type=Path, metavar="DIR", help="write the report of all strategies there"
    )
    parser.add_argument(
        "--format",
        action="append",
        metavar="NAME",
        help="a format of the report: json, text, html, perfetto, xplane or csv; may be given "
        f"several times; default: {' and '.join(_FORMATS)}",
    )
    add_json(parser)
    parser.add_argument("script", type=Path, help="a Python script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the words of its command line")


def _run(options: argparse.Namespace) -> int:
    from ipu_tf.profile.progress import showing_progress
    from ipu_tf.profile.report_formats import check_formats, write_formats
    from ipu_tf.profile.watching import watching_strategies

    if not options.script.is_file():
        raise UsageError(f"there is no script '{options.script}'.")
    try:
        formats = check_formats(options.format or _FORMATS, argument="--format")
    except ValueError as error:
        raise UsageError(error) from error
    if options.report is not None:
        with written(options.report):
            options.report.mkdir(parents=True, exist_ok=True)
    strategies: list[Any] = []

    def watch(strategy: Any) -> None:
        strategies.append(strategy)
        strategy.record_host()

    is_reported = options.report is not None or options.json
    with contextlib.ExitStack() as stack:
        if is_reported:
            stack.enter_context(watching_strategies(watch))
            stack.enter_context(showing_progress(sys.stderr))
        code, kept = _run_script(options.script, options.arguments)
    if is_reported:
        report = _report_of(strategies)
        if options.report is not None:
            with written(options.report):
                for path in write_formats(report, options.report, formats):
                    print(f"report: {path}", file=sys.stderr)
        if options.json:
            print_json(figures_of(report))
    del kept
    return code


def _run_script(script: Path, arguments: Sequence[str]) -> tuple[int, Any]:
    """Runs a script; returns its exit code, and what keeps its objects alive."""
    with _command_line(script, arguments):
        try:
            return 0, runpy.run_path(str(script), run_name="__main__")
        except SystemExit as end:
            return _code(end), None
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            traceback.print_exception(error.with_traceback(_of_script(error, script)))
            return _FAILED, error


def _code(end: SystemExit) -> int:
    """Returns the exit code of `sys.exit`; prints its message, as Python does."""
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    print(end.code, file=sys.stderr)
    return _FAILED


@contextlib.contextmanager
def _command_line(script: Path, arguments: Sequence[str]) -> Iterator[None]:
    """Gives a script the words of its command line, and its folder to import from."""
    argv, path = sys.argv, sys.path
    sys.argv = [str(script), *arguments]
    # Where `python script.py` begins to search; in front of us stands the folder of the command.
    sys.path = [str(script.resolve().parent), *path[1:]]
    try:
        yield
    finally:
        sys.argv, sys.path = argv, path


def _of_script(error: BaseException, script: Path) -> TracebackType | None:
    """Returns the traceback from the script's own frame on; all of it if the script has none."""
    found = error.__traceback__
    while found is not None and found.tb_frame.f_code.co_filename != str(script):
        found = found.tb_next
    return found or error.__traceback__


def _report_of(strategies: Sequence[Any]) -> Report:
    """Returns the report of all strategies, with the host timeline of the first."""
    from ipu_tf.profile.report import Report

    reports = [strategy.report() for strategy in strategies]
    return Report(
        programs=tuple(program for report in reports for program in report.programs),
        host=reports[0].host if reports else None,
    )


RUN = Command(
    name="run",
    summary="run a script, and write a report of what it ran",
    description="Runs a script as `python SCRIPT` does. With --report it writes a report of the "
    "programs of all its strategies, with a timeline of the host, also if the script fails.",
    add_arguments=_add_arguments,
    run=_run,
)
