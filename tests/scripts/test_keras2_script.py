"""A script in Keras 2 runs as it is."""

import re

import pytest

from tests.scripts.test_scripts import figure, run


@pytest.mark.slow
def test_a_script_in_keras_2_trains_replicas_saves_and_loads(tmp_path):
    folder = str(tmp_path / "model")
    printed = run("keras2.py", "--replicas", "2", "--folder", folder)
    assert figure("accuracy", printed) > 0.9
    # The loop of a loaded LSTM is a function of the file, which is not fused and rounds elsewhere.
    assert figure("difference", printed) < 1e-5
    first, last = map(float, re.search(r"^loss (.*) (.*)$", printed, re.MULTILINE).groups())
    assert last < first
