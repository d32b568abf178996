"""`ipu-tf run SCRIPT`: a script as `python SCRIPT` runs it, with a report of what it ran."""

from __future__ import annotations

import argparse
import contextlib
import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from ipu_tf.base import trial
from ipu_tf.base.user_objects import UsageError
from ipu_tf.cli.command import Command
from ipu_tf.cli.files import write_errors
from ipu_tf.cli.output import add_json, figures_of, print_json
from ipu_tf.cli.scripts import command_line, is_python, source_of

_FORMATS = ("json", "text", "html")
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
        f"several times; default: {', '.join(_FORMATS)}",
    )
    parser.add_argument(
        "--insights",
        action=argparse.BooleanOptionalAction,
        help="all changes that would gain most, each checked by planning again, also of very large "
        "programs; or none of them",
    )
    add_json(parser)
    parser.add_argument(
        "--offline",
        action="store_true",
        help="generate the data sets of keras.datasets, give networks random weights, and fail "
        "other downloads",
    )
    parser.add_argument(
        "--max-steps",
        type=int,
        metavar="N",
        help="run at most N steps of each fit, evaluate and predict of a model, and of each "
        "loops.repeat, loops.while_loop, pipeline and plain loop over steps, in whole weight "
        "updates, at least one; loops over tf.range whose iterations are no steps run whole",
    )
    parser.add_argument(
        "--trace-numerics",
        action="store_true",
        help="name the operation that made the first NaN or infinity of a program, as "
        "`simulator.trace_numerics` does, and print at the end what was found, with what to do",
    )
    parser.add_argument(
        "--tf1",
        action="store_true",
        help="run a script for TensorFlow 1: graphs hold the operations, and sessions run them; "
        "`import tensorflow as tf` in its modules gives the names of TensorFlow 1, with parts of "
        "`tf.contrib`",
    )
    parser.add_argument(
        "--keras",
        type=int,
        choices=(2, 3),
        help="the Keras of the script and of the packages that it imports: 2 for tf_keras, 3 for "
        "Keras 3; default: 3 if the script itself imports ipu_tf, and 2 otherwise",
    )
    parser.add_argument(
        "-m", dest="is_module", action="store_true", help="SCRIPT is the name of a module"
    )
    parser.add_argument("script", help="a Python script, or with -m a module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the words of its command line")


def _run(options: argparse.Namespace) -> int:
    source = source_of(options.script, options.is_module)
    _check_launcher()
    from ipu_tf.compat.script import process_as_before, vendor_script
    from ipu_tf.compat.script_keras import keras_of
    from ipu_tf.profile.report_formats import check_formats
    from ipu_tf.profile.text.progress import showing_progress
    from ipu_tf.profile.watching import watching_strategies

    if not is_python(source, options.script):
        return _FAILED
    if options.max_steps is not None and options.max_steps < 1:
        raise UsageError(f"--max-steps must be at least 1. Received: {options.max_steps}.")
    try:
        formats = check_formats(options.format or _FORMATS, argument="--format")
    except ValueError as error:
        raise UsageError(error) from error
    if options.report is not None:
        with write_errors(options.report):
            options.report.mkdir(parents=True, exist_ok=True)
    strategies: list[Any] = []

    def watch(strategy: Any) -> None:
        strategies.append(strategy)
        if is_reported:
            strategy.record_host()

    is_reported = options.report is not None or options.json
    with contextlib.ExitStack() as stack:
        stack.enter_context(process_as_before())
        if options.trace_numerics:
            from ipu_tf.config.system_configuration import tracing_numerics

            stack.enter_context(tracing_numerics())
        if is_reported or options.trace_numerics:
            stack.enter_context(watching_strategies(watch))
        if is_reported:
            stack.enter_context(showing_progress(sys.stderr))
        stack.enter_context(
            vendor_script(
                offline=options.offline,
                max_steps=options.max_steps,
                tf1=options.tf1,
                keras=options.keras or keras_of(source),
            )
        )
        code, traceback = _run_script(options.script, options.arguments, options.is_module)
        if cuts := trial.cuts():
            _tell_cuts(options.max_steps, cuts)
        if options.trace_numerics:
            _tell_faults(strategies)
        # With the script's configuration: its models are traced again for insights.
        if is_reported:
            _report(strategies, options, formats)
        if automatic_reports := sys.modules.get("ipu_tf.profile.automatic_reports"):
            automatic_reports.write_now()
    del traceback
    return code


def _tell_cuts(max_steps: int, cuts: Sequence[str]) -> None:
    print(
        f"--max-steps {max_steps} cut loops of this script short. It does not know, so rates, "
        "losses and counts that it printed may be wrong:",
        *cuts,
        sep="\n  ",
        file=sys.stderr,
    )


def _tell_faults(strategies: Sequence[Any]) -> None:
    """Prints where the first NaN and infinities of a script came from, with what to do."""
    from ipu_tf.profile.text.nonfinite_text import all_lines

    reports = [strategy.report(insights=False) for strategy in strategies]
    print(*all_lines([one for each in reports for one in each.programs]), sep="\n", file=sys.stderr)


def _report(strategies: Sequence[Any], options: argparse.Namespace, formats: Sequence[str]) -> None:
    """Writes and prints the report of a script's strategies, as the options say."""
    from ipu_tf.profile.automatic_reports import report_of
    from ipu_tf.profile.report_formats import write_formats

    report = report_of(strategies, insights=options.insights)
    if options.report is not None:
        with write_errors(options.report):
            for path in write_formats(report, options.report, formats):
                print(f"report: {path}", file=sys.stderr)
    if options.json:
        print_json(figures_of(report))


def _check_launcher() -> None:
    from ipu_tf.processes.instances import instances

    try:
        instances()
    except RuntimeError as error:
        raise UsageError(error) from error


def _run_script(script: str, arguments: Sequence[str], is_module: bool) -> tuple[int, Any]:
    """Runs a script; returns its exit code, and what keeps its objects alive."""
    with command_line(script, arguments, is_module):
        try:
            if is_module:
                return 0, runpy.run_module(script, run_name="__main__", alter_sys=True)
            return 0, runpy.run_path(script, run_name="__main__")
        except SystemExit as end:
            return _code(end), end
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            _add_advice(error)
            traceback.print_exception(error.with_traceback(_of_script(error)))
            return _FAILED, error


def _add_advice(error: BaseException) -> None:
    # Loaded only where a script fails.
    from ipu_tf.compat import advice, offline

    way_out = offline.way_out(error) or advice.way_out(error)
    if way_out is not None:
        error.add_note(way_out)


def _code(end: SystemExit) -> int:
    """Returns the exit code of `sys.exit`; prints its message, as Python does."""
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    print(end.code, file=sys.stderr)
    return _FAILED


def _of_script(error: BaseException) -> TracebackType | None:
    """Returns the traceback from the first frame that is the script's, after those of `runpy`."""
    first = error.__traceback__
    of_runpy = [frame for frame in _frames(first) if frame.tb_frame.f_globals is vars(runpy)]
    # A script that cannot be parsed has no frames: the error names its line.
    return _without_hooks(of_runpy[-1].tb_next if of_runpy else first)


def _without_hooks(traceback: TracebackType | None) -> TracebackType | None:
    """Returns a traceback without the frames of functions that stand in for Python's import."""
    frames = [one for one in _frames(traceback) if not _is_hook(one.tb_frame)]
    next_: TracebackType | None = None
    for one in reversed(frames):
        next_ = TracebackType(next_, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return next_


def _is_hook(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    is_import = frame.f_code.co_name in ("import_module", "import_named")
    return is_import and module.startswith("ipu_tf.compat.")


def _frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


RUN = Command(
    name="run",
    summary="run a script and write a report of its programs",
    description="Runs a script, or with -m a module, as `python` does, with the module names of "
    "the vendor's TensorFlow. With --report it writes a report of the "
    "programs of all its strategies, with a timeline of the host, also if the script fails.",
    add_arguments=_add_arguments,
    run=_run,
)
