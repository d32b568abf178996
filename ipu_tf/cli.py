"""The command line: `ipu-tf estimate module:function` and `ipu-tf validate FILE.json`.

Only commands that trace a model load TensorFlow. Bad input gives one line on the
error output and exit code 2.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ipu_tf import __version__
from ipu_tf.machine import CHIPS, system_of
from ipu_tf.user_objects import UsageError, is_path, named

_BAD_INPUT = 2


class _FailedFunction(Exception):
    """The user's function raised."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command.

    Args:
        arguments: The words after the program's name; those of the process by default.

    Returns:
        The exit code: 0, or 2 for bad input.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    try:
        code: int = options.command(options)
    except _FailedFunction as failure:
        raise failure.__cause__ or failure from None
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return _BAD_INPUT
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ipu-tf", description="Figures of the simulated IPU.")
    parser.add_argument("--version", action="version", version=f"ipu-tf {__version__}")
    parser.set_defaults(command=None)
    commands = parser.add_subparsers(metavar="COMMAND")
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
        "model",
        metavar="MODULE:FUNCTION",
        help="a function without arguments that makes a model, or a model; MODULE may be a FILE.py",
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
    machine, model = _machine(options.chip), _model(options.model)
    # Here, because Keras takes seconds to load.
    from ipu_tf import IPUConfig, UnsupportedOpcodeError, estimate

    config = IPUConfig()
    config.simulator.unsupported = options.unsupported
    config.auto_select_ipus = options.ipus
    try:
        config.simulator.chip = machine
        system_of(machine, options.ipus).check_ipus(options.ipus)
        report = estimate(
            model,
            batch_size=options.batch_size,
            training=not options.inference,
            config=config,
        )
    except UnsupportedOpcodeError as error:
        raise UsageError(f"{error}\nHere: --unsupported warn") from error
    except (TypeError, ValueError) as error:
        raise UsageError(error) from error
    print(report.summary(plans=options.plans))
    if options.json is not None:
        try:
            report.to_json(options.json)
        except OSError as error:
            raise UsageError(f"cannot write {options.json}: {error.strerror}.") from error
    return 0


def _validate(options: argparse.Namespace) -> int:
    from ipu_tf.calibration import validate

    return validate.main([str(options.file), *(["--json"] if options.json else [])])


def _machine(chip: str) -> Any:
    """Returns the chip of that name, or the object named "module:name".

    Raises:
        UsageError: There is no such chip, module or name.
    """
    if chip in CHIPS:
        return chip
    if not is_path(chip):
        raise UsageError(
            f"--chip takes {', '.join(CHIPS)}, or MODULE:NAME of a target or system. "
            f"Received: {chip!r}."
        )
    return named(chip, "target or system")


def _model(path: str) -> Any:
    """Returns the function, class or model named "module:function".

    Raises:
        UsageError: There is no such module or function, or it needs arguments.
    """
    if not is_path(path):
        raise UsageError(
            f"name the model as MODULE:FUNCTION or FILE.py:FUNCTION. Received: {path!r}."
        )
    found, (source, _, attribute) = named(path, "function"), path.rpartition(":")
    if _is_model(found):
        return found
    if not callable(found) or _is_layer(found):
        raise UsageError(
            f"'{source}' has no function '{attribute}'. Name a function that makes a model, or a "
            f"model. Received: {type(found).__name__}."
        )
    needed = _needed_arguments(found)
    if needed:
        kind = "class" if inspect.isclass(found) else "function"
        raise UsageError(
            f"{kind} '{attribute}' of '{source}' needs arguments, and none are passed. Name "
            f"a function that calls it with them. Received: a {kind} of {', '.join(needed)}."
        )
    return _marking_errors(found)


def _is_model(found: Any) -> bool:
    import keras  # Takes seconds to load; a module that makes models has already loaded it.

    return isinstance(found, keras.Model)


def _is_layer(found: Any) -> bool:
    import keras

    return isinstance(found, keras.Layer)


def _needed_arguments(function: Callable[..., Any]) -> list[str]:
    """Returns the names of the required arguments of a function."""
    made_by = function.__init__ if inspect.isclass(function) else function
    try:
        parameters = [*inspect.signature(made_by).parameters.values()]
    except ValueError:  # Some functions that are not written in Python have none.
        return []
    if inspect.isclass(function):
        del parameters[0]  # The object itself.
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in optional]


def _marking_errors(function: Callable[[], Any]) -> Callable[[], Any]:
    """Returns the function with its errors marked, to tell them from errors of the estimate."""

    @functools.wraps(function)
    def made() -> Any:
        try:
            return function()
        except Exception as error:
            raise _FailedFunction from error

    return made
