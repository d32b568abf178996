"""The definition of a command of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command of `ipu-tf`.

    Its module loads neither TensorFlow nor NumPy: `ipu-tf --help` imports the modules of all
    commands. `run` imports what it needs.

    Attributes:
        name: The word that selects it.
        summary: One line of the list of commands.
        description: The first paragraph of its own help.
        add_arguments: Adds its arguments to its parser.
        run: Runs it and returns the exit code; raises `UsageError` for bad input.
        read: Makes the words after its name those that its parser takes.
    """

    name: str
    summary: str
    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    read: Callable[[Sequence[str]], list[str]] = list
