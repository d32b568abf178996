"""Tables of text, drawn by `rich` as wide as the current rendering allows."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

from ipu_tf.profile.text.names import cut_apart
from ipu_tf.profile.text.rendering import current

Row: TypeAlias = Sequence[str]

_BAR = 10
_GAP = 2
_INDENT = 2
_WIDE = 10_000
_LEAST_NAME = 16
_WARNING = "OUT OF "
_NUMBER = re.compile(r"[\d,]+(\.\d+)?%?")
_ZERO = re.compile(r"0(\.0+)?%?")


def table(header: Row, rows: Iterable[Row], shares: Iterable[float] | None = None) -> Iterator[str]:
    """Yields the lines of a table: the first column to the left, the others to the right.

    Names in the first column are cut in the middle where the table would be too wide.

    Args:
        header: The titles of the columns.
        rows: The cells of each row.
        shares: A share in [0, 1] for each row, drawn as a bar behind it.
    """
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    grid = [[printable(cell) for cell in row] for row in rows]
    bars = None if shares is None else list(shares)
    titles = _titles(header, grid, current().width - _INDENT - (0 if bars is None else _GAP + _BAR))
    widths = [
        max(map(len, [*title.splitlines(), *(row[n] for row in grid)]), default=0)
        for n, title in enumerate(titles)
    ]
    behind = [*widths[1:], *([] if bars is None else [_BAR])]
    least, available = max(_LEAST_NAME, len(header[0])), current().width - _INDENT
    gap = _GAP if least + sum(_GAP + width for width in behind) <= available else 1
    room = max(least, available - sum(gap + width for width in behind))
    layout = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="bold")
    for column, title in enumerate(titles):
        justify: Literal["left", "right"] = "right" if column else "left"
        layout.add_column(Text(title), justify=justify, no_wrap=True, vertical="bottom")
    if bars is not None:
        layout.add_column("", width=_BAR)
    for number, name in enumerate(cut_apart([row[0] for row in grid], room)):
        row = grid[number]
        style = "bold red" if any(cell.startswith(_WARNING) for cell in row) else ""
        bar = [] if bars is None else [ProgressBar(total=1, completed=bars[number], width=_BAR)]
        layout.add_row(*(Text(cell, style=style) for cell in (name, *row[1:])), *bar)
    text = dataclasses.replace(current(), width=_WIDE).draw(layout)
    yield from (line.rstrip() for line in text.splitlines())


def _titles(header: Row, rows: Sequence[Row], width: int) -> list[str]:
    """Returns the titles of the columns, in several lines where they make a table too wide."""
    cells = [max((len(row[n]) for row in rows), default=0) for n in range(len(header))]
    natural = sum(_GAP + max(len(title), cells[n]) for n, title in enumerate(header)) - _GAP
    if natural <= width:
        return list(header)
    others = (
        "\n".join(textwrap.wrap(title, max(1, cells[n]), break_long_words=False)) or title
        for n, title in enumerate(header[1:], start=1)
    )
    return [header[0], *others]


def printable(text: str) -> str:
    """Returns a text without characters that move a terminal's cursor or change its colours."""
    return "".join(char if char.isprintable() else "?" for char in text)


def without_zeros(rows: Iterable[Row]) -> list[Row]:
    """Returns the rows that have a number other than zero; all of them if no row has one."""
    rows = list(rows)
    return [row for row in rows if not _is_zero(row)] or rows


def _is_zero(row: Row) -> bool:
    numbers = [cell for cell in row[1:] if _NUMBER.fullmatch(cell)]
    return bool(numbers) and all(_ZERO.fullmatch(number) for number in numbers)
