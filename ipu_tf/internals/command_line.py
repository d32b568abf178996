"""What `argparse` knows of a parser and has no public name for."""

from __future__ import annotations

import argparse
from collections.abc import Mapping


def actions_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Returns the arguments of a parser, in the order they were added.

    Relies on `ArgumentParser._actions`, which the libraries that complete command lines read, too.
    """
    return list(parser._actions)


def commands_of(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """Returns the parsers of a parser's commands by name.

    Relies on `argparse._SubParsersAction`, the class of what `add_subparsers` returns.
    """
    (commands,) = (
        action for action in actions_of(parser) if isinstance(action, argparse._SubParsersAction)
    )
    parsers: Mapping[str, argparse.ArgumentParser] = commands.choices
    return parsers
