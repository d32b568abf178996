"""The tutorials about the training loop run, and what they train learns."""

import re

import pytest

from ipu_tf import config
from tutorials import (
    digits,
    gradient_accumulation,
    mixed_precision,
    on_device_loop,
    pipelining_functional,
    pipelining_sequential,
    pipelining_subclass,
    replication,
)

TUTORIALS = [
    on_device_loop,
    gradient_accumulation,
    replication,
    mixed_precision,
    pipelining_sequential,
    pipelining_functional,
    pipelining_subclass,
]


@pytest.fixture(autouse=True)
def _no_configuration_is_left():
    yield
    config.reset_ipu_configuration()


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda tutorial: tutorial.__name__)
def test_what_is_trained_learns(tutorial, capsys):
    tutorial.main(["--epochs", "4"])
    printed = capsys.readouterr().out
    accuracies = [float(number) for number in re.findall(r"([\d.]+)%", printed)]
    assert accuracies
    assert min(accuracies) > 80


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda tutorial: tutorial.__name__)
def test_epochs_are_checked(tutorial, capsys):
    with pytest.raises(SystemExit):
        tutorial.main(["--epochs", "0"])
    assert "--epochs must be at least 1. Received: 0" in capsys.readouterr().err


def test_missing_scikit_learn_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn", None)
    with pytest.raises(SystemExit, match="pip install scikit-learn"):
        digits.load_digits()
