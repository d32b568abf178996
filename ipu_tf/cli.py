"""The command line: `ipu-tf estimate module:function` and `ipu-tf validate FILE.json`.

Bad input gives one line on the error output and exit code 2.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ipu_tf.compiler.errors import UnsupportedOpcodeError
from ipu_tf.config import IPUConfig
from ipu_tf.machine import CHIPS, system_of

_BAD_INPUT = 2


class _UsageError(Exception):
    """Bad input, as a message for the user."""


class _FailedFunction(Exception):
    """The user's function raised."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command.

    Args:
        arguments: The words after the program's name; those of the process by default.

    Returns:
        The exit code: 0, or 2 for bad input.
    """
    options = _parser().parse_args(arguments)
    try:
        code: int = options.command(options)
    except _FailedFunction as failure:
        raise failure.__cause__ or failure from None
    except _UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return _BAD_INPUT
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ipu-tf", description="Figures of the simulated IPU.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_estimate(commands)
    validate = commands.add_parser(
        "validate",
        help="predict measured figures and print the errors",
        description="Predicts every record of a file of measurements and prints the errors.",
    )
    validate.add_argument("file", type=Path, help="a JSON file of records")
    validate.add_argument("--json", action="store_true", help="print every prediction, as JSON")
    validate.set_defaults(command=_validate)
    return parser


def _add_estimate(commands: Any) -> None:
    estimate = commands.add_parser(
        "estimate",
        help="print what a step of a Keras model costs",
        description="Prints what a step of a Keras model costs on the machine. Nothing is run.",
    )
    estimate.add_argument(
        "model", metavar="MODULE:FUNCTION", help="a function without arguments that makes a model"
    )
    estimate.add_argument(
        "--chip",
        default="bow",
        help=f"{', '.join(CHIPS)}, or MODULE:NAME of a target or system of your own; default: bow",
    )
    estimate.add_argument("--ipus", type=int, default=1, help="IPUs of the system; default: 1")
    estimate.add_argument("--batch-size", type=int, default=1, help="samples a step; default: 1")
    estimate.add_argument(
        "--inference", action="store_true", help="a prediction instead of a training step"
    )
    estimate.add_argument(
        "--unsupported",
        choices=("raise", "warn"),
        default="raise",
        help="what to do about operations without a cost: stop (the default), or go on with an "
        "incomplete report",
    )
    estimate.add_argument("--plans", action="store_true", help="list the plan of every tile op")
    estimate.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON, too")
    estimate.set_defaults(command=_estimate)


def _estimate(options: argparse.Namespace) -> int:
    from ipu_tf.estimation import estimate  # It takes seconds to load Keras.

    config = IPUConfig()
    machine = _machine(options.chip)
    config.simulator.unsupported = options.unsupported
    config.auto_select_ipus = options.ipus
    function = _function(options.model)
    try:
        config.simulator.chip = machine
        system_of(machine, options.ipus).check_ipus(options.ipus)
        report = estimate(
            _marking_errors(function),
            batch_size=options.batch_size,
            training=not options.inference,
            config=config,
        )
    except UnsupportedOpcodeError as error:
        raise _UsageError(f"{error}\nHere: --unsupported warn") from error
    except (TypeError, ValueError) as error:
        raise _UsageError(error) from error
    print(report.summary(plans=options.plans))
    if options.json is not None:
        try:
            report.to_json(options.json)
        except OSError as error:
            raise _UsageError(f"cannot write {options.json}: {error.strerror}.") from error
    return 0


def _validate(options: argparse.Namespace) -> int:
    from ipu_tf.calibration import validate

    return validate.main([str(options.file), *(["--json"] if options.json else [])])


def _machine(chip: str) -> Any:
    """Returns the chip of that name, or what "module:name" names.

    Raises:
        _UsageError: There is no such chip, module or name.
    """
    if chip in CHIPS:
        return chip
    if not _is_path(chip):
        raise _UsageError(
            f"--chip takes {', '.join(CHIPS)}, or MODULE:NAME of a target or system. "
            f"Received: {chip!r}."
        )
    return _named(chip, "target or system")


def _is_path(text: str) -> bool:
    """Returns whether a text is of the form "module:name"."""
    return all(text.partition(":"))


def _named(path: str, kind: str) -> Any:
    """Returns what "module:name" names, in modules of this folder, too; `kind` says what it is.

    Raises:
        _UsageError: There is no such module or name.
    """
    name, _, attribute = path.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # As `python -m` has it.
    try:
        module: Any = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _UsageError(f"module '{name}' needs '{error.name}', which is missing.") from error
        raise _UsageError(
            f"there is no module '{name}' here or among the installed packages."
        ) from error
    found = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise _UsageError(f"module '{name}' has no {kind} '{attribute}'.")
    return found


def _function(path: str) -> Callable[[], Any]:
    """Returns the function that "module:function" names.

    Raises:
        _UsageError: There is no such module or function, or it needs arguments.
    """
    if not _is_path(path):
        raise _UsageError(f"name the model as MODULE:FUNCTION. Received: {path!r}.")
    found, (name, _, attribute) = _named(path, "function"), path.partition(":")
    if not callable(found):
        raise _UsageError(f"module '{name}' has no function '{attribute}'.")
    needed = _needed_arguments(found)
    if needed:
        raise _UsageError(
            f"function '{attribute}' of module '{name}' needs arguments, and none are passed. Name "
            f"a function that calls it with them. Received: a function of {', '.join(needed)}."
        )
    function: Callable[[], Any] = found
    return function


def _needed_arguments(function: Callable[..., Any]) -> list[str]:
    """Returns the names of the arguments that a function cannot be called without."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # Some that are not written in Python have none.
        return []
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in optional]


def _marking_errors(function: Callable[[], Any]) -> Callable[[], Any]:
    """Returns the function with its errors told apart from those of the estimate."""

    @functools.wraps(function)
    def made() -> Any:
        try:
            return function()
        except Exception as error:
            raise _FailedFunction from error

    return made
