"""A sweep as a page: throughput against memory, and every estimate in a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ipu_tf.profile.html import Chart, Section, Table, sections_page
from ipu_tf.sweep.estimates import Estimate, pareto_front, varying
from ipu_tf.sweep.point import FIGURES

_SYMBOLS = ("circle", "rect", "triangle", "diamond", "pin", "arrow", "roundRect")
"""Shapes, so that series differ without colours."""

_TOO_LARGE = "too large"

_DOT, _RING, _HALO = 8, 14, 22
"""Sizes of symbols: rings and halos leave the dots inside them to be seen."""

_MOST_NAMES = 4
"""Estimates of one place that its tooltip names."""

_MIB = 2**20

_HEADS: Mapping[str, str] = {
    "cycles": "cycles",
    "seconds": "seconds",
    "samples_per_second": "samples a second on the device",
    "memory_bytes": "tiles in all",
    "max_tile_bytes": "fullest tile",
    "tile_bytes": "memory of a tile",
    "streaming_bytes": "streaming memory",
    "flop_utilisation": "share of the peak",
    "joules_per_sample": "energy a sample",
}
"""Heads of the columns, by figure."""


def sweep_page(model: str, training: bool, estimates: Sequence[Estimate], text: str) -> str:
    """Returns a sweep as the text of one self-contained HTML file.

    Args:
        model: Name of the model's function.
        training: Whether the estimates are of training steps.
        estimates: The estimates.
        text: The sweep as text, for readers without scripts.
    """
    step = "training steps" if training else "predictions"
    section = Section(
        title=f"{len(estimates)} estimates of {step} of {model}",
        text=(
            "All figures are modelled. On the Pareto front are the estimates that fit, and that no "
            "other one beats in both samples a second and memory.",
        ),
        charts=(_chart(estimates),),
        tables=(_table(estimates),),
    )
    return sections_page(f"Sweep of {model}", [section], without_scripts=text)


def _chart(estimates: Sequence[Estimate]) -> Chart:
    front, names = pareto_front(estimates), varying(estimates)
    points = [
        each
        for each in estimates
        if not each.outcome.error and each.outcome.samples_per_second is not None
    ]
    groups: dict[str, list[Estimate]] = {}
    for each in points:
        name = each.point.chip_name if each.outcome.fits else _TOO_LARGE
        groups.setdefault(name, []).append(each)
    series: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "name": name,
            "symbol": "emptyCircle" if name == _TOO_LARGE else _SYMBOLS[number % len(_SYMBOLS)],
            "symbolSize": _RING if name == _TOO_LARGE else _DOT,
            "z": 3 if name == _TOO_LARGE else 4,  # Dots are drawn last, in rings and halos.
            "data": _dots(members, names),
        }
        for number, (name, members) in enumerate(groups.items())
    ]
    series.append(
        {
            "type": "line",
            "name": "Pareto front",
            "step": "end",
            "symbol": "circle",
            "symbolSize": _HALO,
            "itemStyle": {"opacity": 0.3},
            "data": _dots(front, names),
        }
    )
    best = front[-1] if front else None
    most = (
        f" The fastest that fits, {_name(best, names)}, has {best.outcome.samples_per_second:,.1f}"
        " samples/s on the device."
        if best is not None
        else " None fits."
    )
    return Chart(
        title="Throughput against memory",
        description="Samples a second on the device of every estimate against the memory in use on "
        f"the tiles of all IPUs, with the Pareto front of {len(front)} estimates as a line.{most}",
        option={
            "legend": {},
            "tooltip": {"trigger": "item"},
            "grid": {"left": 20, "right": 30, "bottom": 50, "containLabel": True},
            "xAxis": {
                "type": "value",
                "scale": True,
                "name": "memory on tiles",
                "nameLocation": "middle",
                "nameGap": 32,
            },
            "yAxis": {"type": "value", "name": "samples/s on the device"},
            "series": series,
        },
        units={"x": "MiB"},
        height=520,
    )


def _dots(members: Sequence[Estimate], names: Sequence[str]) -> list[dict[str, Any]]:
    """Returns a dot for each place, with the names of all estimates there."""
    places: dict[tuple[float, float], list[str]] = {}
    for each in members:
        rate = each.outcome.samples_per_second
        assert rate is not None
        place = (float(f"{each.outcome.memory_bytes / _MIB:.4g}"), float(f"{rate:.7g}"))
        places.setdefault(place, []).append(_name(each, names))
    return [{"name": _all(labels), "value": list(place)} for place, labels in places.items()]


def _all(names: Sequence[str]) -> str:
    remainder = len(names) - _MOST_NAMES
    return "; ".join(names[:_MOST_NAMES]) + (f"; and {remainder} more" if remainder > 0 else "")


def _name(each: Estimate, names: Sequence[str]) -> str:
    labels = each.point.labels()
    used_names = (name for name in names if labels[name] != "")
    return ", ".join(f"{name.replace('_', ' ')} {labels[name]}" for name in used_names)


def _table(estimates: Sequence[Estimate]) -> Table:
    front, parameters = set(map(id, pareto_front(estimates))), varying(estimates)
    names = tuple(name.replace("_", " ") for name in parameters)
    figures = tuple(_HEADS[name] for name in FIGURES)
    return Table(
        title="Estimates",
        columns=(*names, *figures, "verdict", "front", "error"),
        rows=tuple(_row(each, parameters, id(each) in front) for each in estimates),
        units={
            "cycles": "cycles",
            "seconds": "seconds",
            "samples a second on the device": "samples/s",
            "tiles in all": "memory",
            "fullest tile": "memory",
            "memory of a tile": "memory",
            "streaming memory": "memory",
            "share of the peak": "percent",
            "energy a sample": "joules",
        },
    )


def _row(each: Estimate, parameters: Sequence[str], on_front: bool) -> tuple[Any, ...]:
    labels, outcome = each.point.labels(), each.outcome
    figures = (None if outcome.error else getattr(outcome, name) for name in FIGURES)
    return (
        *(labels[name] for name in parameters),
        *figures,
        outcome.verdict,
        "on the front" if on_front else "",
        outcome.error,
    )
