"""The rows of the tables of spellings, and the context in which they are in force."""

import inspect
import sys

import pytest

from ipu_tf import cli
from ipu_tf.compat.spellings.spelling import Spelling
from ipu_tf.compat.spellings.table import SPELLINGS
from ipu_tf.compat.tf_keras.habits import SPELLINGS as HABITS

SCRIPT = """
import numpy as np
for _ in range(2):
    assert np.int is int
"""


def methods():
    """The methods that spellings replace or add, as they are now."""
    found = {patch for spelling in SPELLINGS for patch in (*spelling.rewrites, *spelling.wraps)}
    return {patch: inspect.getattr_static(patch.owner, patch.name, None) for patch in found}


@pytest.mark.parametrize("ending", ["", "raise RuntimeError('its own')\n"])
def test_a_script_has_one_notice_and_all_is_stock_afterwards(tmp_path, notices, capsys, ending):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + ending)
    stock, finders = methods(), list(sys.meta_path)
    assert cli.main(["run", str(script)]) == int(bool(ending))
    assert ("RuntimeError: its own" in capsys.readouterr().err) is bool(ending)
    assert len(notices()) == 1
    assert methods() == stock
    assert sys.meta_path == finders


def test_rows_have_distinct_names_and_whole_sentences():
    rows = (*SPELLINGS, *HABITS)
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        assert row.before.endswith("."), row.name
        assert row.here.endswith("."), row.name


def test_a_notice_names_the_spelling_and_its_meaning_here():
    row = Spelling(name="`x`", before="A number.", here="A letter.")
    assert row.notice == "An earlier spelling, `x`: A letter."
