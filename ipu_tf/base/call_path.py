"""The layers that are being called: whose work the ops are that a trace creates.

Each Keras registers a source that reads its own record of calls, so the rooms that trace know none
of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPath:
    """The calls that are open on this thread.

    Attributes:
        path: Path of the innermost layer, such as "sequential/dense"; "" outside of layers.
        is_in_optimizer: Whether an optimizer is being called.
    """

    path: str = ""
    is_in_optimizer: bool = False


Source: TypeAlias = Callable[[], CallPath]

_OUTSIDE = CallPath()
_sources: list[Source] = []


def add_source(source: Source) -> Source:
    """Registers a source of call paths; a decorator.

    Args:
        source: Returns the open calls of one Keras, with the path "" if there are none.
    """
    _sources.append(source)
    return source


def current() -> CallPath:
    """Returns the open calls: those of the source that has a path, none if no source has one."""
    for source in _sources:
        calls = source()
        if calls.path:
            return calls
    return _OUTSIDE
