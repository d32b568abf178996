"""A comparison as a page: what changed most, drawn, and every figure in tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ipu_tf.profile.comparison.comparison_text import figure, program_title, title_of
from ipu_tf.profile.comparison.differences import TABLES, Difference, ProgramComparison
from ipu_tf.profile.html import Cell, Chart, Section, Table, Unit, sections_page

_TOP_LAYERS = 25
"""Layers in the chart; the table has all of them."""

_UNITS: Mapping[str, Unit] = {
    "phases": "cycles",
    "activities": "cycles",
    "layers": "cycles",
    "categories": "bytes",
    "ipus": "bytes",
    "work": "cycles",
}
_NO_LAYER = "(no layer)"


def comparison_page(
    programs: Sequence[ProgramComparison],
    only_before: Sequence[str],
    only_after: Sequence[str],
    text: str,
) -> str:
    """Returns a comparison as the text of one self-contained HTML file.

    Args:
        programs: The programs of both reports.
        only_before: Names of programs of the first report alone.
        only_after: Names of programs of the second report alone.
        text: The comparison as text, for readers without scripts.
    """
    sections = list(map(_section, programs))
    alone = [
        f"'{name}' is in the {where} report alone."
        for where, names in (("first", only_before), ("second", only_after))
        for name in names
    ]
    if alone or not sections:
        lines = alone or ["Neither report has a compiled program."]
        sections.append(Section(title="Programs without a counterpart", text=lines))
    return sections_page("Two reports compared", sections, without_scripts=text)


def _section(program: ProgramComparison) -> Section:
    return Section(
        title=program_title(program),
        charts=tuple(_charts(program)),
        tables=tuple(
            _table(name, getattr(program, name), program.words.place)
            for name in TABLES
            if getattr(program, name)
        ),
    )


def _charts(program: ProgramComparison) -> Sequence[Chart]:
    """Returns the layers that changed most, as bars; none if no layer changed."""
    differences = [entry for entry in program.layers if entry.verdict != "same"][:_TOP_LAYERS]
    if not differences:
        return ()
    names = [entry.name or _NO_LAYER for entry in differences]
    place = program.words.place
    most, saving = names[0], (differences[0].after or 0) - (differences[0].before or 0)
    bars = [
        {
            "type": "bar",
            "name": name,
            "data": [getattr(entry, field) or 0 for entry in differences],
        }
        for name, field in (("before", "before"), ("after", "after"))
    ]
    return (
        Chart(
            title=f"Cycles of the {place}s that changed most",
            description=f"Bars of the cycles before and after, {place} by {place}. "
            f"{most} changed most, by {saving:+,.0f} cycles.",
            option={
                "legend": {},
                "tooltip": {"trigger": "axis"},
                "grid": {"left": 10, "right": 20, "bottom": 30, "containLabel": True},
                "xAxis": {"type": "value", "minInterval": 1},
                "yAxis": {"type": "category", "inverse": True, "data": names},
                "series": bars,
            },
            units={"x": "cycles"},
            height=120 + 28 * len(differences),
        ),
    )


def _growth(entry: Difference) -> float | None:
    """Returns the change as a share; None for new and gone entries, and from zero."""
    if entry.verdict in ("new", "gone") or not math.isfinite(entry.growth):
        return None
    return entry.growth


def _cell(table: str, name: str, value: float | None) -> Cell:
    """Returns a figure, as text in a table whose rows differ in their unit."""
    return value if value is None or table in _UNITS else figure(name, value)


def _table(name: str, entries: Sequence[Difference], place: str = "layer") -> Table:
    unit = _UNITS.get(name, "")
    return Table(
        title=title_of(name, place),
        columns=("name", "before", "after", "change", "verdict"),
        rows=tuple(
            (
                entry.name or _NO_LAYER,
                _cell(name, entry.name, entry.before),
                _cell(name, entry.name, entry.after),
                _growth(entry),
                entry.verdict,
            )
            for entry in entries
        ),
        units={"before": unit, "after": unit, "change": "percent"},
    )
