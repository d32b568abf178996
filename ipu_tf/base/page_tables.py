"""Generated tables of pages in Markdown."""

from __future__ import annotations

from collections.abc import Iterable


def with_table(page: str, name: str, text: str) -> str:
    """Returns a page with the text between the markers of that name replaced.

    Raises:
        ValueError: The page lacks the markers.
    """
    begin, end = f"<!-- {name}: generated -->\n", f"<!-- end of {name} -->"
    head, begin_marker, content = page.partition(begin)
    _, end_marker, tail = content.partition(end)
    if not (begin_marker and end_marker):
        raise ValueError(
            f"The page has no place for a generated table: put {begin!r} and {end!r} into it."
        )
    return head + begin + text + end + tail


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Returns a table in Markdown, a line each row."""
    lines = (header, ("---",) * len(header), *rows)
    # A bar inside a cell would end it.
    cells = ([cell.replace("|", r"\|") for cell in line] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)
