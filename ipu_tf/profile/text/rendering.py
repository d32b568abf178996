"""How text is drawn: its width, its colours, its characters; `rich` draws it.

Tables and prose ask for the rendering that is in force. By default it is as wide as the terminal,
and without colours; 100 characters wide where there is no terminal.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_DEFAULT_WIDTH = 100
_LEAST_WIDTH = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """How text is drawn.

    Attributes:
        width: Characters of a line.
        colour: Whether there are colours, as escape sequences of terminals.
        encoding: The encoding of the characters: bars are drawn with those that it has.
    """

    width: int = _DEFAULT_WIDTH
    colour: bool = False
    encoding: str = "utf-8"

    def draw(self, renderable: RenderableType, *, soft_wrap: bool = False, end: str = "\n") -> str:
        """Returns the text of something that `rich` draws.

        Args:
            renderable: The table, text or the like.
            soft_wrap: Whether lines are left as long as they are.
            end: What follows it.
        """
        file = _Text(self.encoding)
        self.console(file).print(renderable, soft_wrap=soft_wrap, end=end)
        return file.getvalue()

    def console(self, file: io.StringIO | None = None, *, record: bool = False) -> Console:
        """Returns a console of `rich` that draws into a string."""
        from rich.console import Console

        return Console(
            file=file or _Text(self.encoding),
            width=self.width,
            force_terminal=self.colour,
            color_system="standard" if self.colour else None,
            no_color=not self.colour,
            highlight=False,
            markup=False,
            emoji=False,
            _environ={},
            record=record,
        )


class _Text(io.StringIO):
    """A string that says how it will be encoded."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding."""
        return self._encoding


_CURRENT: ContextVar[Rendering | None] = ContextVar("ipu_tf.rendering", default=None)


def current() -> Rendering:
    """Returns the rendering in force."""
    return _CURRENT.get() or Rendering(width=_width(sys.stdout), encoding=_encoding(sys.stdout))


@contextlib.contextmanager
def rendering(choice: Rendering) -> Iterator[None]:
    """Draws text inside in a given way."""
    token = _CURRENT.set(choice)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def for_stream(stream: TextIO | None) -> Rendering:
    """Returns the rendering for a stream: with colours on a terminal, unless `NO_COLOR` is set."""
    is_terminal = _is_terminal(stream)
    dumb = os.environ.get("TERM", "dumb") == "dumb"
    colour = is_terminal and not dumb and not os.environ.get("NO_COLOR")
    return Rendering(width=_width(stream), colour=colour, encoding=_encoding(stream))


def styled(text: str, style: str) -> str:
    """Returns a text in a style of `rich` if there are colours, else the text itself."""
    rendering = current()
    if not rendering.colour:
        return text
    from rich.text import Text

    return rendering.draw(Text(text, style=style), soft_wrap=True, end="")


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and hasattr(stream, "isatty") and stream.isatty()


def _width(stream: TextIO | None) -> int:
    if not _is_terminal(stream):
        return _DEFAULT_WIDTH
    return max(_LEAST_WIDTH, shutil.get_terminal_size((_DEFAULT_WIDTH, 24)).columns)


def _encoding(stream: TextIO | None) -> str:
    return getattr(stream, "encoding", None) or "utf-8"
