"""Spans of the host's time, and the sinks that get them: recorders, progress lines.

`span` marks work where it is done. Without a sink it returns a shared context that does nothing,
so marked code costs a function call.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Protocol, TypeAlias, get_args

Category: TypeAlias = Literal[
    "trace",
    "hlo",
    "compile",
    "infeed",
    "execution",
    "outfeed",
    "callback",
    "checkpoint",
    "user",
]
"""trace: a function is traced. hlo: XLA's HLO is extracted. compile: a stage of the compiler.
infeed: the host waits for data. execution: the host runs steps. outfeed: the host takes results.
callback, checkpoint: of Keras. user: `ipu_tf.profile.trace`."""

CATEGORIES: tuple[Category, ...] = get_args(Category)

CAPACITY = 65_536
"""Spans that a recorder keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Work of one thread of the host.

    Attributes:
        name: Name of the work.
        category: The kind of work.
        track: The thread that does it. Data is waited for on a track of its own.
        begin_ns: When it begins, on the clock of `time.perf_counter_ns`.
        end_ns: When it ends.
        program: The program that it is for, "" for none.
        steps: Steps that it runs, over all replicas one each; 0 if it runs none.
    """

    name: str
    category: Category
    track: str
    begin_ns: int
    end_ns: int
    program: str = ""
    steps: int = 0


class Sink(Protocol):
    """Gets spans as they begin and end, on the thread that does the work."""

    def began(self, name: str, category: Category, program: str) -> None:
        """Called when a span begins."""

    def ended(self, span: Span) -> None:
        """Called when a span has ended, also by an exception."""


_sinks: tuple[Sink, ...] = ()
_lock = threading.Lock()


def attach(sink: Sink) -> None:
    """Sends all spans that begin from now on to a sink, too."""
    global _sinks
    with _lock:
        _sinks = (*_sinks, sink)


def detach(sink: Sink) -> None:
    """Sends no more spans to a sink."""
    global _sinks
    with _lock:
        _sinks = tuple(other for other in _sinks if other is not sink)


@contextlib.contextmanager
def unrecorded() -> Iterator[None]:
    """Keeps the spans of this thread's work inside from recorders; other sinks get them."""
    token = _UNRECORDED.set(True)
    try:
        yield
    finally:
        _UNRECORDED.reset(token)


def _sinks_here() -> tuple[Sink, ...]:
    if not _UNRECORDED.get():
        return _sinks
    return tuple(sink for sink in _sinks if not isinstance(sink, Recorder))


@contextlib.contextmanager
def attached(sink: Sink) -> Iterator[None]:
    """Sends the spans inside to a sink, too."""
    attach(sink)
    try:
        yield
    finally:
        detach(sink)


def are_recorded() -> bool:
    """Returns whether anything keeps spans."""
    return any(isinstance(sink, Recorder) for sink in _sinks)


def span(
    name: str, category: Category, *, program: str = "", steps: int = 0
) -> contextlib.AbstractContextManager[None]:
    """Returns a context that is a span; arguments as the attributes of `Span`."""
    if not _sinks:
        return _NOTHING
    return _SpanContext(name, category, program, steps)


def record(
    name: str,
    category: Category,
    *,
    begin_ns: int,
    end_ns: int | None = None,
    track: str | None = None,
    program: str = "",
    steps: int = 0,
) -> None:
    """Sends a span that has ended, now and on this thread unless given otherwise.

    Arguments are as the attributes of `Span`.
    """
    span = Span(
        name=name,
        category=category,
        track=threading.current_thread().name if track is None else track,
        begin_ns=begin_ns,
        end_ns=time.perf_counter_ns() if end_ns is None else end_ns,
        program=program,
        steps=steps,
    )
    for sink in _sinks_here():
        sink.ended(span)


def is_executing() -> bool:
    """Returns whether this thread is inside of a span of the category "execution"."""
    return _EXECUTING.get()


_EXECUTING: ContextVar[bool] = ContextVar("ipu_tf.executing", default=False)
_UNRECORDED: ContextVar[bool] = ContextVar("ipu_tf.unrecorded", default=False)
_NOTHING = contextlib.nullcontext()


class _SpanContext(contextlib.AbstractContextManager[None]):
    """A span of the thread that enters it."""

    __slots__ = ("_begin_ns", "_category", "_name", "_program", "_sinks", "_steps", "_token")

    def __init__(self, name: str, category: Category, program: str, steps: int) -> None:
        self._name = name
        self._category = category
        self._program = program
        self._steps = steps

    def __enter__(self) -> None:
        self._token = _EXECUTING.set(self._category == "execution" or _EXECUTING.get())
        self._sinks = _sinks_here()  # Those that see it begin see it end.
        for sink in self._sinks:
            sink.began(self._name, self._category, self._program)
        self._begin_ns = time.perf_counter_ns()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        end_ns = time.perf_counter_ns()
        _EXECUTING.reset(self._token)
        span = Span(
            name=self._name,
            category=self._category,
            track=threading.current_thread().name,
            begin_ns=self._begin_ns,
            end_ns=end_ns,
            program=self._program,
            steps=self._steps,
        )
        for sink in self._sinks:
            sink.ended(span)


class Recorder:
    """Keeps the last spans: a sink.

    Args:
        capacity: Spans to keep; the oldest are dropped.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._spans: deque[Span] = deque(maxlen=capacity)
        self.clear()

    def clear(self) -> None:
        """Drops all spans, and counts time from now on."""
        self._spans.clear()
        self._count = 0
        self.began_unix_ns = time.time_ns()
        self.began_ns = time.perf_counter_ns()

    @property
    def spans(self) -> tuple[Span, ...]:
        """The kept spans, in the order in which they ended."""
        return tuple(self._spans)

    @property
    def dropped(self) -> int:
        """Number of spans that are dropped because there was no room."""
        return self._count - len(self._spans)

    def began(self, name: str, category: Category, program: str) -> None:
        """Does nothing: only the end of a span is kept."""

    def ended(self, span: Span) -> None:
        """Keeps a span; not one that began before the last `clear`."""
        if span.begin_ns >= self.began_ns:
            self._count += 1
            self._spans.append(span)
