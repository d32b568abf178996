"""Comparisons of predictions with measurements, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ipu_tf.calibration.compare import Comparison, Group, PointComparison
from ipu_tf.calibration.reach import reach_of


def to_json(comparison: Comparison) -> str:
    """Returns a JSON list of id, prediction and measurement, both in the record's unit.

    An entry also names the publication that corrected its record; null if the record was predicted
    as written.
    """
    entries = [
        {
            "id": one.record.id,
            "predicted": one.predicted,
            "measured": one.record.measured,
            "corrected_by": one.record.correction and one.record.correction.source,
        }
        for one in comparison.compared
    ]
    return json.dumps(entries, indent=1)


def to_text(comparison: Comparison) -> str:
    """Returns a table of the groups, the rows of models, and the records without a prediction."""
    heads = ("kind", "chip", "n", "median", "worst", "rank", "worst record")
    lines = _aligned([heads, *(_row(group) for group in comparison.groups)])
    corrections = [
        f"{len(records)} of {records[0].kind} predicted as measured on {one.chip}: {one.source}"
        for one, records in comparison.corrections
    ]
    return "\n".join([*lines, *corrections, *_models(comparison), *reasons(comparison)])


def reasons(comparison: Comparison) -> list[str]:
    """Returns the records without a prediction, line by line."""
    lines = [
        f"unknown kind {kind}: {count} not predicted"
        for kind, count in sorted(comparison.unknown_kinds.items())
    ]
    lines += [f"{one.record.id}: not predicted: {one.reason}" for one in comparison.unpredicted]
    count = sum(one.predicted is None for one in comparison.compared)
    return [*lines, f"{count} of {len(comparison.compared)} not predicted"] if count else lines


def _row(group: Group) -> tuple[str, ...]:
    rank = "-" if group.rank_correlation is None else f"{group.rank_correlation:.2f}"
    return (
        group.kind,
        group.chip,
        str(group.number),
        f"{group.median_error:.1%}",
        f"{group.worst_error:+.1%}",
        rank,
        group.worst_id,
    )


def _models(comparison: Comparison) -> list[str]:
    """Returns the rows of models with their parts, and how far off they are together."""
    models = [one for one in comparison.compared if one.explanation]
    reach = reach_of(models)
    if reach is None:
        return []
    heads = ("record", "predicted", "measured", "ratio", "consists of")
    return [*_aligned([heads, *(_model_row(one) for one in models)]), reach.text]


def _model_row(one: PointComparison) -> tuple[str, ...]:
    return (
        one.record.id,
        f"{one.predicted:,.0f}",
        f"{one.record.measured:,.0f}",
        f"{one.error + 1:.2f}",
        one.explanation,
    )


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines of a table of equally wide columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
