"""docs/config.md is complete and up to date."""

from pathlib import Path

import pytest

from ipu_tf.config import IPUConfig
from ipu_tf.config.reference import with_tables

PAGE = Path(__file__).resolve().parents[2] / "docs" / "config.md"


def test_the_tables_are_those_of_the_declarations():
    page = PAGE.read_text()
    assert with_tables(page) == page, "run python -m ipu_tf.config.reference docs/config.md"


def test_every_option_has_one_row():
    lines = PAGE.read_text().splitlines()
    for name in IPUConfig().to_dict():
        assert len([line for line in lines if line.startswith(f"| `{name}` |")]) == 1, name


def test_rows_have_as_many_cells_as_their_header():
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    for row in rows:
        assert row.replace(r"\|", "").count("|") in (3, 5, 6), row


def test_a_page_without_a_place_for_the_tables():
    with pytest.raises(ValueError, match="The page has no place for a generated table"):
        with_tables("# Configuration\n")
