import re

import pytest

from ipu_tf.calibration import KINDS, compare, load_records
from ipu_tf.calibration.document import PAGE, POINTS, group_table, main, render
from ipu_tf.calibration.provenance import CONSTANTS, KIND_NOTES

PLANNED = ("conv_forward", "dense_matmul", "gemm_largest_square", "gemm_peak")


def test_every_kind_has_a_note():
    assert list(KIND_NOTES) == sorted(KINDS)


def test_constants_have_one_name_each():
    assert len({one.name for one in CONSTANTS}) == len(CONSTANTS)


def test_the_page_has_all_tables(make):
    comparison = compare([make("host", {"tiles": 1}, measured=8.81)])
    page = render(comparison, comparison)
    assert page.count("| `host` | gc2 | 1 | 0.0% |") == 2
    assert all(f"| {one.name} | {one.value} |" in page for one in CONSTANTS)


def test_the_page_is_written(monkeypatch, tmp_path, make):
    page = tmp_path / "fidelity.md"
    monkeypatch.setattr("ipu_tf.calibration.document.PAGE", page)
    monkeypatch.setattr("ipu_tf.calibration.document.load_records", lambda path: ())
    assert main() == 0
    assert page.read_text().startswith("# Fidelity\n")


@pytest.mark.parametrize("name", ["calibration.json", "published.json"])
def test_the_page_tells_what_the_model_gives_now(name):
    """Rows without plans; `python -m ipu_tf.calibration.document` writes the page anew."""
    records = [one for one in load_records(POINTS / name) if one.kind not in PLANNED]
    rows = group_table(compare(records).groups).splitlines()[2:]
    page = PAGE.read_text()
    assert rows
    assert [row for row in rows if row not in page] == []


def test_the_page_names_no_machine():
    assert re.search(r"/(home|work|tmp|root)/", PAGE.read_text()) is None
