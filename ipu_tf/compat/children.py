"""Processes that `multiprocessing` starts anew run under what their parent runs under.

Such a process, unlike a fork, knows nothing of its parent but what is sent to it; it then runs the
parent's script up to `if __name__ == "__main__"`, and so imports what the script imports.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import spawn
from typing import TypeAlias

Context: TypeAlias = Callable[..., contextlib.AbstractContextManager[object]]
"""Returns a context; a function of a module, which processes can send each other."""

_of_process = contextlib.ExitStack()
"""What this process, if it is such a child, runs under until it ends."""


class _Entering:
    """An object that, where it is unpickled, enters a context for the rest of the process."""

    def __init__(self, context: Context, options: Mapping[str, object]) -> None:
        self._context, self._options = context, options

    def __reduce__(self) -> tuple[Callable[..., None], tuple[object, ...]]:
        return enter, (self._context, self._options)


def enter(context: Context, options: Mapping[str, object]) -> None:
    """Enters a context for the rest of the process."""
    _of_process.enter_context(context(**options))


@contextlib.contextmanager
def children_enter(context: Context, options: Mapping[str, object]) -> Iterator[None]:
    """Makes new processes of `multiprocessing` and `concurrent.futures` enter a context first.

    Args:
        context: Makes the context; a function of a module.
        options: Its arguments.
    """
    stock = spawn.get_preparation_data

    # A child unpickles the data before it imports the script.
    def data(name: str) -> dict[str, object]:
        return {"ipu_tf": _Entering(context, options), **stock(name)}

    spawn.get_preparation_data = data
    try:
        yield
    finally:
        spawn.get_preparation_data = stock
