"""`libpvti`: the user's own spans, shown in the timeline of the host."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class TraceChannel:
    """A name under which spans are shown together."""

    name: str


def createTraceChannel(name: str) -> TraceChannel:
    """Returns a channel of that name."""
    return TraceChannel(name)


class Tracepoint:
    """A span from the entry of a `with` block to its end.

    Args:
        channel: Its channel.
        label: Its name.
    """

    def __init__(self, channel: TraceChannel, label: str) -> None:
        # The reports are loaded where a script traces, not where it imports this module.
        from ipu_tf.profile import trace

        self._trace = trace(f"{channel.name}: {label}")

    def __enter__(self) -> Tracepoint:
        self._trace.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._trace.__exit__(kind, error, traceback)


def instrument_fn(channel: TraceChannel) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Returns a decorator that makes a span of every call, named after the function."""

    def decorator(function: Callable[_P, _T]) -> Callable[_P, _T]:
        @functools.wraps(function)
        def traced(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            with Tracepoint(channel, function.__qualname__):
                return function(*args, **kwargs)

        return traced

    return decorator
