"""Arguments of the vendor's functions that are accepted without effect."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True, slots=True)
class UnusedArguments:
    """Arguments without effect, and why.

    Attributes:
        arguments: Their names.
        why: Why they have none.
        names: The functions and classes that take them, as the interface lists them.
    """

    arguments: tuple[str, ...]
    why: str
    names: tuple[str, ...]


_TABLE = tomllib.loads(resources.files(__package__).joinpath("unused_arguments.toml").read_text())

UNUSED_ARGUMENTS = tuple(
    UnusedArguments(tuple(one["arguments"]), one["why"], tuple(one["names"]))
    for one in _TABLE["unused"]
)
"""Arguments without effect; names without effect are in `states.WITHOUT_EFFECT`."""


def unused_arguments() -> Iterator[tuple[str, str]]:
    """Returns the pairs of a name of the interface and an argument that has no effect on it."""
    return (
        (name, argument)
        for unused in UNUSED_ARGUMENTS
        for name in unused.names
        for argument in unused.arguments
    )
