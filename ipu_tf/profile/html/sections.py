"""Pages of sections with charts and tables, for comparisons and sweeps."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ipu_tf.profile.html.page import page

Unit: TypeAlias = Literal[
    "", "cycles", "bytes", "memory", "MiB", "percent", "seconds", "joules", "samples/s"
]
"""How a page writes numbers; "percent" takes shares in [0, 1]."""

Cell: TypeAlias = str | int | float | bool | None
"""An entry of a table; None is shown as a dash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart of Apache ECharts.

    Attributes:
        title: Its heading.
        description: One or two sentences with what it shows, for readers who do not see it.
        option: The option object of ECharts as plain data. Colours, decals, fonts, the tooltip and
            the style of axes come from the theme of the page, unless set here.
        units: Units of the values on each axis, "x" and "y".
        height: In pixels.
    """

    title: str
    description: str
    option: Mapping[str, object]
    units: Mapping[Literal["x", "y"], Unit] = dataclasses.field(default_factory=dict)
    height: int = 360


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table that readers sort and search.

    Attributes:
        title: Its caption.
        columns: Names of the columns.
        rows: The entries of every row.
        units: Unit of each column; numbers of a column without one are written as they are.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    units: Mapping[str, Unit] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for index, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"Table.rows[{index}] must have {len(self.columns)} entries, one for each "
                    f"column. Received: {len(row)}."
                )
        unknown = set(self.units) - set(self.columns)
        if unknown:
            raise ValueError(
                f"Table.units must name columns, {', '.join(self.columns)}. "
                f"Received: {', '.join(sorted(unknown))}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a page.

    Attributes:
        title: Its heading.
        text: Paragraphs below it.
        charts: Its charts.
        tables: Its tables, after the charts.
    """

    title: str
    text: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()


def sections_page(title: str, sections: Sequence[Section], *, without_scripts: str = "") -> str:
    """Returns a page with sections as the text of one self-contained HTML file.

    Args:
        title: The title and first heading.
        sections: The parts, in order.
        without_scripts: The text that mail programs and browsers without scripts show.

    Raises:
        ValueError: A number is not finite.
    """
    data = {"title": title, "sections": [dataclasses.asdict(section) for section in sections]}
    return page(
        title=title,
        data=data,
        scripts=("web/sections.js",),
        without_scripts=without_scripts,
    )
