"""The entry point of `ipu-tf` and `python -m ipu_tf`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ipu_tf import __version__
from ipu_tf.base.user_objects import UsageError
from ipu_tf.cli.commands import COMMANDS
from ipu_tf.cli.failures import FailedFunction

_BAD_INPUT = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command.

    Args:
        arguments: The words after the program's name; those of the process by default.

    Returns:
        The exit code: 0, or 2 for bad input.
    """
    parser = _parser()
    options = parser.parse_args(_command_line(sys.argv[1:] if arguments is None else arguments))
    if options.command is None:
        parser.print_help()
        return 0
    from ipu_tf.compat.startup_lines import quiet_tensorflow

    try:
        with quiet_tensorflow():
            code: int = options.command.run(options)
    except FailedFunction as failure:
        raise failure.__cause__ or failure from None
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return _BAD_INPUT
    return code


def _command_line(words: Sequence[str]) -> list[str]:
    """Returns a command line as its command's parser takes it."""
    for command in COMMANDS:
        if words and words[0] == command.name:
            return [command.name, *command.read(words[1:])]
    return list(words)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ipu-tf", description="Figures of the simulated IPU.")
    parser.add_argument("--version", action="version", version=f"ipu-tf {__version__}")
    parser.set_defaults(command=None, parser=parser)
    parsers = parser.add_subparsers(metavar="COMMAND")
    for command in COMMANDS:
        its_parser = parsers.add_parser(
            command.name, help=command.summary, description=command.description
        )
        command.add_arguments(its_parser)
        its_parser.set_defaults(command=command)
    return parser
