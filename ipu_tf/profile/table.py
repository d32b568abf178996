"""Tables of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TypeAlias

Row: TypeAlias = Sequence[str]


def table(header: Row, rows: Iterable[Row]) -> Iterator[str]:
    """Yields the lines of a table: the first column to the left, the others to the right."""
    grid = [header, *rows]
    widths = [max(map(len, column)) for column in zip_longest(*grid, fillvalue="")]
    for row in grid:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        yield "  ".join(cells).rstrip()
