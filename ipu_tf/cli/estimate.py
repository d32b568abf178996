"""`ipu-tf estimate`: what a step of a Keras model, or a module in HLO text, costs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ipu_tf.base.batch_size import check_batch_size
from ipu_tf.base.loading import loading
from ipu_tf.base.model_names import check_name
from ipu_tf.base.user_objects import UsageError
from ipu_tf.cli.command import Command
from ipu_tf.cli.figures_first import FiguresFirst
from ipu_tf.cli.files import check_writable, write_errors
from ipu_tf.cli.hlo_files import add_hlo_options, estimated_hlo, is_hlo
from ipu_tf.cli.machines import add_machine, machine_of
from ipu_tf.cli.models import model_named
from ipu_tf.cli.output import figures_of, print_json
from ipu_tf.cli.step_options import add_step_options, estimated, ipus_of
from ipu_tf.internals.deferred_modules import deferred_modules
from ipu_tf.machine import system_of

if TYPE_CHECKING:
    from ipu_tf.machine import System, Target
    from ipu_tf.profile.report import Report

_STANDARD_OUTPUT = Path("-")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        metavar="MODULE:FUNCTION",
        help="a function without arguments that makes a model, or a model; MODULE may be a FILE.py "
        "or, for a published network, zoo; or FILE.hlo, a module in HLO text, as XLA and JAX dump "
        "it",
    )
    add_machine(parser)
    add_step_options(parser)
    add_hlo_options(parser)
    parser.add_argument(
        "--batch-size", type=int, default=1, help="samples of a micro-batch; default: 1"
    )
    parser.add_argument(
        "--packed",
        action="store_true",
        help="no axis of the inputs counts samples, as of packed graphs; --batch-size is the "
        "number of graphs",
    )
    parser.add_argument(
        "--inference", action="store_true", help="a prediction instead of a training step"
    )
    parser.add_argument(
        "--unsupported",
        choices=("raise", "warn"),
        default="raise",
        help="what to do about operations without a cost: stop (the default), or go on with an "
        "incomplete report",
    )
    parser.add_argument("--plans", action="store_true", help="list the plan of every tile op")
    parser.add_argument(
        "--insights",
        action=argparse.BooleanOptionalAction,
        help="all changes that would gain most, each checked by planning again, also of very large "
        "programs; or none of them",
    )
    parser.add_argument(
        "--json",
        type=Path,
        nargs="?",
        const=_STANDARD_OUTPUT,
        metavar="FILE",
        help="write the report as JSON, too; without FILE print its figures instead of text",
    )


def _run(options: argparse.Namespace) -> int:
    from ipu_tf.programs.insights import insight_watcher

    if options.json == _STANDARD_OUTPUT:
        print_json(figures_of(_report(options)))
        return 0
    printer = FiguresFirst(plans=options.plans)
    with insight_watcher(printer):
        report = _report(options)
    printer.finish(report)
    if options.json is not None:
        with write_errors(options.json):
            report.to_json(options.json)
    return 0


def _report(options: argparse.Namespace) -> Report:
    """Returns the report of the model, or of the module in HLO text, that is named.

    Raises:
        UsageError: The input is bad.
    """
    _check(options)
    machine, ipus = machine_of(options)
    from ipu_tf.profile.text.progress import showing_progress
    from ipu_tf.tile_program.errors import UnsupportedOpcodeError

    try:
        if is_hlo(options.model):
            with showing_progress(sys.stderr):
                return estimated_hlo(options, machine, ipus)
        return _report_of_model(options, machine, ipus_of(options, ipus))
    except UnsupportedOpcodeError as error:
        raise UsageError(f"{error}\nOn the command line: --unsupported warn") from error
    except (TypeError, ValueError) as error:
        raise UsageError(error) from error


def _check(options: argparse.Namespace) -> None:
    """Refuses bad input before anything large is loaded.

    Raises:
        UsageError: The model does not exist, the batch is of no size, or the file has no folder.
    """
    if not is_hlo(options.model):
        check_name(options.model)
    if options.json not in (None, _STANDARD_OUTPUT):
        check_writable(options.json)
    try:
        check_batch_size(options.batch_size)
    except ValueError as error:
        raise UsageError(error) from error


def _report_of_model(
    options: argparse.Namespace, machine: str | Target | System, ipus: int
) -> Report:
    from ipu_tf.config import IPUConfig
    from ipu_tf.profile.text.progress import showing_progress

    if options.weights is not None:
        raise UsageError(
            "--weights is about modules in HLO text: name an .hlo file. "
            f"Received: {options.model!r}."
        )
    config = IPUConfig()
    config.simulator.unsupported = options.unsupported
    config.auto_select_ipus = ipus
    config.simulator.chip = machine
    system_of(machine, ipus).check_ipus(ipus)
    with loading(), deferred_modules():
        import ipu_tf.estimation  # noqa: F401 - with TensorFlow and Keras, seconds.
    model = model_named(options.model, options.batch_size)
    with showing_progress(sys.stderr):
        return estimated(options, model, config, ipus)


ESTIMATE = Command(
    name="estimate",
    summary="print the cost of a step of a Keras model, or of a module in HLO text",
    description="Prints the modelled cost of a step of a Keras model, or of a run of a module in "
    "HLO text. Runs nothing.",
    add_arguments=_add_arguments,
    run=_run,
)
