"""`python -m ipu_tf.validation.document`: writes docs/fidelity.md.

Run in a checkout. The page is made from the measured points and from the model's own constants;
no figure in it is written by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from ipu_tf.calibration.compare import Comparison, Group, compare
from ipu_tf.calibration.corrections import Correction
from ipu_tf.calibration.provenance import CONSTANTS, KIND_NOTES, KNOWN_WRONG
from ipu_tf.calibration.reach import reach_of
from ipu_tf.calibration.records import MeasuredPoint, load_records
from ipu_tf.validation import PREDICTORS

ROOT = Path(__file__).resolve().parent.parent.parent
POINTS = ROOT / "tests" / "calibration"
PAGE = ROOT / "docs" / "fidelity.md"

_HEAD = """\
# Fidelity

The accuracy of the simulated machine's figures. This page is written by
`python -m ipu_tf.validation.document` from the comparison that `ipu-tf validate FILE.json` prints;
do not edit it.

A cycle count of a report is **modelled** throughout: plans, exchanges and vertices are charged by
formulas, not run. Each part is one of

* **stated**: a source gives the figure;
* **derived**: arithmetic on stated figures;
* **fitted**: a constant chosen to meet measured points, named after what it stands for;
* **modelled**: our reading, where nothing is published;
* **bound**: reality cannot be better.

CIT is Jia et al., "Dissecting the Graphcore IPU Architecture via Microbenchmarking", arXiv
1912.03413: a GC2 at 1.6 GHz with SDK 1.0.49, 2019. Of later chips little is measured in public.
"""

_FITTED_TEXT = """\
Constants were fitted on these points (`tests/calibration/calibration.json`, each with its source
and how far to trust it). Error is predicted over measured, less one.
"""

_PUBLISHED_TEXT = """\
Further rows of the same paper (`tests/calibration/published.json`). No constant was chosen to meet
these figures, but for those that the list of constants attributes to CIT tables 4.1, 4.8 and 4.14;
they show how the model extends.
"""

_MODELS_TEXT = """\
Published throughput of whole models (`tests/calibration/models.json`), with the configurations that
reached it, predicted by an estimate of the same network of [the zoo](zoo.md). No constant is fitted
to these rows. The ratio is predicted over published; the last column has the largest parts of a
weight update on the IPU that works longest, and how full the tiles are.
"""

_CORRECTIONS_TEXT = """\
Publications of these measurements contradict the configurations that their records infer;
predictions follow the publications. Tables name the records' chip. A file of records says so,
in its section "corrections"; records that no correction names are predicted as they say.
"""

_VERTICES_TEXT = """\
Element-wise, reduction, movement, random, sorting and window vertices follow the published cycle
estimators of poplibs 3.4; what those leave open is marked "modelled" or "bound" in the docstrings
of `ipu_tf/machine/vertices`. Products follow the same release (`ipu_tf/machine/contractions`).
Normalisations run the vertices that popnn's norms are made of, one after the other, in the type of
the data (`ipu_tf/compiler/lowering/elements/normalization.py`). Softmaxes multiply by the inverse
of their sums, as popnn's do (`ipu_tf/compiler/passes/recognition/softmaxes.py`).
"""


def render(fitted: Comparison, published: Comparison, models: Comparison) -> str:
    """Returns the page.

    Args:
        fitted: The points that constants were fitted on.
        published: Further points.
        models: Whole models.
    """
    constants = [(one.name, one.value, one.status, one.how) for one in CONSTANTS]
    kinds = [(f"`{kind}`", note.status, note.how) for kind, note in KIND_NOTES.items()]
    corrections = [
        _correction_row(one, records)
        for comparison in (fitted, published)
        for one, records in comparison.corrections
    ]
    parts = [
        _HEAD,
        "## Measured points that constants were fitted on\n",
        _FITTED_TEXT,
        group_table(fitted.groups),
        "## Further measured points\n",
        _PUBLISHED_TEXT,
        group_table(published.groups),
        "## Whole models\n",
        _MODELS_TEXT,
        model_table(models),
        "## How each kind is predicted\n",
        _table(("kind", "status", "from"), kinds),
        "## Corrected records\n",
        _CORRECTIONS_TEXT,
        _table(("measurement", "kind", "chip", "parameters", "because"), corrections),
        "## Constants\n",
        _table(("constant", "value", "status", "from"), constants),
        "## Vertices\n",
        _VERTICES_TEXT,
        "## Known to be off\n",
        "\n".join(f"* {line}" for line in KNOWN_WRONG) + "\n",
    ]
    return "\n".join(parts)


def group_table(groups: Iterable[Group]) -> str:
    """Returns the errors of the groups as a table."""
    rows = [
        (
            f"`{group.kind}`",
            group.chip,
            str(group.number),
            f"{group.median_error:.1%}",
            f"{group.worst_error:+.1%} (`{group.worst_id}`)",
            "" if group.rank_correlation is None else f"{group.rank_correlation:.2f}",
        )
        for group in groups
    ]
    return _table(("kind", "chip", "points", "median error", "worst", "rank correlation"), rows)


def model_table(models: Comparison) -> str:
    """Returns the rows of models, and how far off they are together."""
    rows = [
        (
            f"`{one.record.id}`",
            f"{one.record.measured:,.0f}",
            f"{one.predicted:,.0f}",
            f"{one.error + 1:.2f}",
            one.explanation,
        )
        for one in models.compared
        if one.predicted is not None
    ]
    reach = reach_of(models.compared)
    heads = ("record", "published items/s", "predicted", "ratio", "consists of")
    return _table(heads, rows) + ("" if reach is None else f"\n{reach.text}.\n")


def main() -> int:
    """Writes the page."""
    fitted, published, models = (
        compare(load_records(POINTS / name), PREDICTORS)
        for name in ("calibration.json", "published.json", "models.json")
    )
    PAGE.write_text(render(fitted, published, models), encoding="utf-8")
    return 0


def _correction_row(correction: Correction, records: Sequence[MeasuredPoint]) -> tuple[str, ...]:
    params = "; ".join(map(str, correction.params.values()))
    return correction.source, f"`{records[0].kind}`", correction.chip, params, correction.why


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
