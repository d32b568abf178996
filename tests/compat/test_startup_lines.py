"""TensorFlow starts without a word, but its other words are kept."""

import os
import subprocess
import sys

import pytest

from ipu_tf.compat.startup_lines import quiet_tensorflow, without_startup_lines

LINES = b"""\
WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
I0000 00:00:1795389012.781533   15192 port.cc:153] oneDNN custom operations are on.
I0000 00:00:1795389012.781822   15192 cudart_stub.cc:31] Could not find cuda drivers
I0000 00:00:1795389012.829848   15192 cpu_feature_guard.cc:227] This TensorFlow binary is
To enable the following instructions: AVX2 AVX512F, in other operations, rebuild TensorFlow
"""


def test_other_lines_of_an_import_are_printed(capfd):
    def execute(module):
        os.write(2, LINES + b"W0000 of another kind\n")
        raise ImportError(module)

    with pytest.raises(ImportError, match="numbers"):
        without_startup_lines(execute, "numbers")
    assert capfd.readouterr().err == "W0000 of another kind\n"
    os.write(2, b"later\n")
    assert capfd.readouterr().err == "later\n"


def test_a_level_that_is_set_stays_and_0_shows_all(monkeypatch):
    finders = list(sys.meta_path)
    for level, inside in ((None, "3"), ("1", "1"), ("0", "0")):
        monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
        if level is not None:
            monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", level)
        with quiet_tensorflow(), quiet_tensorflow():
            assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == inside
            assert len(sys.meta_path) == len(finders) + (level != "0")
        assert os.environ.get("TF_CPP_MIN_LOG_LEVEL") == level
        assert sys.meta_path == finders


@pytest.mark.slow
def test_a_script_starts_without_a_word(tmp_path):
    (tmp_path / "script.py").write_text("import tensorflow as tf\nprint(int(tf.constant(1) + 1))\n")
    command = [sys.executable, "-m", "ipu_tf", "run", "script.py"]
    environment = {name: x for name, x in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    for level, is_quiet in ((None, True), ("0", False)):
        variables = environment | ({"TF_CPP_MIN_LOG_LEVEL": level} if level else {})
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
        assert done.stdout == "2\n"
        assert (done.stderr == "") == is_quiet
