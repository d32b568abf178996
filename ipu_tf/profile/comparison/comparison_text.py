"""Comparisons as text: pure functions from values to lines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ipu_tf.profile.comparison.differences import (
    ENERGY,
    RUN_TIME,
    TABLES,
    TIME,
    UTILISATION,
    Difference,
    ProgramComparison,
)
from ipu_tf.profile.text.sections import LAYER_WIDTH, shortened
from ipu_tf.profile.text.table import Row, table
from ipu_tf.profile.text.units import precise

_TITLES: Mapping[str, str] = {
    "totals": "a run",
    "phases": "cycles by phase",
    "activities": "cycles by activity",
    "layers": "cycles by layer",
    "categories": "bytes on all tiles",
    "ipus": "bytes of the fullest tile",
    "work": "cycles in which an IPU works on micro-batches",
}
"""Titles of the tables of a program."""

_UNITS: Mapping[str, str] = {TIME: "s", RUN_TIME: "s", ENERGY: "J"}
_TOP_LAYERS = 15
_HEADER = ("before", "after", "change", "")


def lines(
    programs: Sequence[ProgramComparison],
    only_before: Sequence[str],
    only_after: Sequence[str],
) -> Iterator[str]:
    """Yields the lines of a comparison; what did not change is left out.

    Args:
        programs: The programs of both reports.
        only_before: Names of programs of the first report alone.
        only_after: Names of programs of the second report alone.
    """
    for number, program in enumerate(programs):
        yield from ([""] if number else [])
        yield from _program_lines(program)
    for where, names in (("first", only_before), ("second", only_after)):
        for name in names:
            yield f"Program '{name}' is in the {where} report alone"
    if not (programs or only_before or only_after):
        yield "Neither report has a compiled program."


def _program_lines(program: ProgramComparison) -> Iterator[str]:
    yield program_title(program)
    for name in TABLES:
        differences = [entry for entry in getattr(program, name) if entry.verdict != "same"]
        rows = differences[:_TOP_LAYERS] if name == "layers" else differences
        if not rows:
            continue
        title = title_of(name, program.words.place)
        if len(rows) < len(differences):
            title += f" ({len(rows)} of {len(differences)} that changed)"
        yield ""
        yield from (f"  {line}" for line in table((title, *_HEADER), map(_row, rows)))


def title_of(table: str, place: str) -> str:
    """Returns the title of a table; `place` is what steps belong to."""
    return _TITLES[table].replace("layer", place)


def program_title(program: ProgramComparison) -> str:
    """Returns the name of a program and the outcome in a few words: time, and whether it fits."""
    time = next(entry for entry in program.totals if entry.name.startswith("seconds"))
    words = {
        "better": f"faster, {_growth(time)} {time.name}",
        "worse": f"slower, {_growth(time)} {time.name}",
    }.get(time.verdict, "as fast as before")
    fits = {(True, False): "; fits no longer", (False, True): "; fits now"}
    return f"Program '{program.name}': {words}{fits.get(program.fits, '')}"


def _row(entry: Difference) -> Row:
    return (
        shortened(entry.name, LAYER_WIDTH),
        figure(entry.name, entry.before),
        figure(entry.name, entry.after),
        _growth(entry) if entry.verdict in ("better", "worse") else "",
        entry.verdict,
    )


def _growth(entry: Difference) -> str:
    return f"{100 * entry.growth:+.2f}%" if math.isfinite(entry.growth) else "from 0"


def figure(name: str, value: float | None) -> str:
    """Returns a figure with its unit, "-" if it is not known."""
    if value is None:
        return "-"
    if name in _UNITS:
        return precise(value, _UNITS[name])
    if name == UTILISATION:
        return f"{100 * value:.4g}%"
    if value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.1f}" if value >= 1000 else f"{value:.4g}"
