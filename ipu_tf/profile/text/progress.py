"""Shows what is traced and compiled while it is: one changing line on a terminal, else plain lines.

`showing_progress` is a sink of spans; nothing is shown outside of it.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from ipu_tf.base import spans
from ipu_tf.base.spans import Category, Span
from ipu_tf.config.flags import poplar_flags

if TYPE_CHECKING:
    from rich.status import Status

_CATEGORIES: frozenset[Category] = frozenset({"trace", "hlo", "compile"})

_lock = threading.RLock()
_shown_on: list[TextIO] = []


@contextlib.contextmanager
def showing_progress(stream: TextIO) -> Iterator[None]:
    """Shows progress of what is compiled inside on a stream; once, if contexts are nested."""
    with _lock:
        if _shown_on:
            is_shown = True
        else:
            is_shown = False
            _shown_on.append(stream)
    if is_shown:
        yield
        return
    progress = _Line(stream) if stream.isatty() else _Lines(stream)
    try:
        with spans.attached(progress):
            yield
    finally:
        progress.close()
        _shown_on.remove(stream)


def showing_progress_on_terminal() -> contextlib.AbstractContextManager[None]:
    """Shows progress on the error output if it is a terminal, unless TF_POPLAR_FLAGS differs."""
    option = poplar_flags().show_progress_bar
    if sys.stderr is None or option == "false" or (option == "auto" and not sys.stderr.isatty()):
        return contextlib.nullcontext()
    return showing_progress(sys.stderr)


class _Lines:
    """Prints a line when a function's trace, its HLO and each stage of the compiler begin."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def began(self, name: str, category: Category, program: str) -> None:
        if category in _CATEGORIES:
            with _lock:
                self._show(f"{program}: {name}" if program else name)

    def ended(self, span: Span) -> None:
        """Does nothing: the next line says what is done now."""

    def close(self) -> None:
        """Does nothing: nothing is left on the screen that should not be."""

    def _show(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class _Line(_Lines):
    """Shows the same as one line that changes, and disappears when all is compiled."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._status: Status | None = None
        self._depth = 0

    def began(self, name: str, category: Category, program: str) -> None:
        self._depth += category in _CATEGORIES
        super().began(name, category, program)

    def ended(self, span: Span) -> None:
        self._depth -= span.category in _CATEGORIES
        if not self._depth:
            self.close()

    def close(self) -> None:
        """Removes the line."""
        with _lock:
            if self._status is not None:
                self._status.stop()
                self._status = None

    def _show(self, text: str) -> None:
        from rich.console import Console  # On a terminal only: it takes 50 ms to load.
        from rich.markup import escape

        if self._status is not None:
            self._status.update(escape(text))
            return
        self._status = Console(file=self._stream).status(escape(text))
        self._status.start()
