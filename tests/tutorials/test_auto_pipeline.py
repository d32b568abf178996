"""The tutorial chooses a pipeline, says why, and trains with it."""

import re

import pytest

from ipu_tf import config
from tutorials import auto_pipeline


@pytest.fixture(autouse=True)
def _no_configuration_is_left():
    yield
    config.reset_ipu_configuration()


@pytest.mark.slow
def test_what_is_chosen_trains(capsys):
    auto_pipeline.main(["--epochs", "4"])
    printed = capsys.readouterr().out
    assert "Model 'wide': 1 x 2 IPUs" in printed
    assert "limits it; bubble" in printed
    assert re.search(r"2 x 1 .* OUT OF MEMORY by", printed)
    (accuracy,) = re.findall(r"accuracy ([\d.]+)%", printed)
    assert float(accuracy) > 80
