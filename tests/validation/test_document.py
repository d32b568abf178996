import re
from pathlib import Path
from typing import get_args

import pytest

from ipu_tf.calibration import compare, load_records, provenance
from ipu_tf.calibration.compare import Comparison, PointComparison
from ipu_tf.calibration.provenance import CONSTANTS, FIGURES, KIND_NOTES, Status
from ipu_tf.validation import PREDICTORS
from ipu_tf.validation.document import PAGE, POINTS, group_table, main, model_table, render

PLANNED = ("conv_forward", "dense_matmul", "gemm_largest_square", "gemm_peak")


def test_every_kind_has_a_note():
    assert list(KIND_NOTES) == sorted(PREDICTORS)


def test_constants_have_one_name_each():
    assert len({one.name for one in CONSTANTS}) == len(CONSTANTS)


def test_every_source_is_of_a_known_kind():
    assert {one.status for one in (*CONSTANTS, *KIND_NOTES.values())} <= {*get_args(Status)}


def test_every_figure_stands_in_a_source():
    text = (Path(provenance.__file__).parent / "provenance.toml").read_text()
    assert {*re.findall(r"{(\w+)", text)} == {*FIGURES}
    assert not any("{" in one.value for one in CONSTANTS)


def test_the_page_has_all_tables(make):
    comparison = compare([make("host", {"tiles": 1}, measured=8.81)])
    page = render(comparison, comparison, comparison)
    assert page.count("| `host` | gc2 | 1 | 0.0% |") == 2
    assert all(f"| {one.name} | {one.value} |" in page for one in CONSTANTS)


def test_the_page_is_written(monkeypatch, tmp_path, make):
    page = tmp_path / "fidelity.md"
    monkeypatch.setattr("ipu_tf.validation.document.PAGE", page)
    monkeypatch.setattr("ipu_tf.validation.document.load_records", lambda path: ())
    assert main() == 0
    assert page.read_text().startswith("# Fidelity\n")


@pytest.mark.parametrize("name", ["calibration.json", "published.json"])
def test_the_page_tells_what_the_model_gives_now(name):
    """Rows without plans; `python -m ipu_tf.validation.document` writes the page anew."""
    records = [one for one in load_records(POINTS / name) if one.kind not in PLANNED]
    rows = group_table(compare(records).groups).splitlines()[2:]
    page = PAGE.read_text()
    assert rows
    assert [row for row in rows if row not in page] == []


def test_rows_of_models_have_their_parts(make):
    record = make("model", {"network": "one"}, "items/s", id="row", measured=4000.0)
    one = PointComparison(record=record, predicted=5000.0, explanation="norms 9%")
    table = model_table(Comparison(compared=(one,)))
    assert "| `row` | 4,000 | 5,000 | 1.25 | norms 9% |" in table
    assert "1 rows of 1 networks: off by a median factor of 1.25" in table


@pytest.mark.slow
def test_the_page_tells_the_rows_of_models_now():
    models = compare(load_records(POINTS / "models.json"), PREDICTORS)
    assert models.unpredicted == ()
    assert model_table(models) in PAGE.read_text()


def test_the_page_names_no_machine():
    assert re.search(r"/(home|work|tmp|root)/", PAGE.read_text()) is None
