"""Keras is adapted while a script of the vendor's TensorFlow runs, and by nothing else."""

import inspect
import subprocess
import sys
import textwrap

import keras
import pytest

from ipu_tf import cli, compat
from ipu_tf.compat.keras2.context import keras_2_spellings
from ipu_tf.compat.keras2.table import SPELLINGS

SCRIPT = """
from tensorflow import keras
from tensorflow.keras.layers import Input
for shape in (80, 32):
    assert Input(shape=shape).shape == (None, shape)
    assert keras.Input(shape).shape == (None, shape)
"""


def methods():
    """The methods of Keras that spellings replace or add, as they are now."""
    found = {patch for spelling in SPELLINGS for patch in (*spelling.rewrites, *spelling.wraps)}
    return {patch: inspect.getattr_static(patch.owner, patch.name, None) for patch in found}


def test_a_script_runs_with_one_notice_and_keras_is_stock_afterwards(tmp_path, notices):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    stock = methods()
    finders = list(sys.meta_path)
    assert cli.main(["run", str(script)]) == 0
    notices.once("`Input(shape=80)`")
    assert methods() == stock
    assert sys.meta_path == finders


def test_keras_is_stock_after_a_script_that_fails(tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text("import keras\nkeras.Input(80)\nraise RuntimeError('its own')\n")
    assert cli.main(["run", str(script)]) == 1
    assert "RuntimeError: its own" in capsys.readouterr().err
    with pytest.raises(ValueError, match="Cannot convert '80' to a shape"):
        keras.Input(80)


def test_the_aliases_alone_leave_keras_as_it_is():
    compat.install()
    try:
        with pytest.raises(ValueError, match="Cannot convert '80' to a shape"):
            keras.Input(80)
    finally:
        compat.uninstall()


def test_a_run_within_a_run_is_one(notices):
    with keras_2_spellings():
        with keras_2_spellings():
            assert keras.Input(80).shape == (None, 80)
        assert keras.Input(80).shape == (None, 80)
        assert keras.losses.Reduction.SUM == "sum"
    notices.once("`Input(shape=80)`", "`keras.losses.Reduction`")
    with pytest.raises(ValueError, match="Cannot convert"):
        keras.Input(80)


def test_rows_have_distinct_names_and_whole_sentences():
    names = [spelling.name for spelling in SPELLINGS]
    assert len(set(names)) == len(names)
    for spelling in SPELLINGS:
        assert spelling.keras_2.endswith("."), spelling.name
        assert spelling.here.endswith("."), spelling.name


def test_a_notice_says_where_the_meaning_is_not_kept():
    for spelling in SPELLINGS:
        assert ("not the meaning of Keras 2" in spelling.notice) is not spelling.is_kept


@pytest.mark.slow
@pytest.mark.parametrize(
    "first", ["import keras", "from ipu_tf import IPUStrategy", "from tensorflow.python import ipu"]
)
def test_keras_is_adapted_whoever_loads_it(tmp_path, first):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import sys
            assert not {{"keras", "tensorflow"}} & {{*sys.modules}}
            {first}
            """
        )
        + SCRIPT
    )
    command = [sys.executable, "-m", "ipu_tf", "run", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Keras 2 spelling, ") == 1
