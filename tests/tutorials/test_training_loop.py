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


def last_lines(tutorial, capsys):
    """The last line of a tutorial, whose model has learned to tell digits apart."""
    tutorial.main(["--epochs", "4"])
    printed = capsys.readouterr().out.splitlines()
    accuracies = [
        float(number)
        for line in printed
        for number in re.findall(r"([\d.]+)%", line.partition("accuracy")[2])
    ]
    assert accuracies
    assert min(accuracies) > 80
    assert max(map(len, printed)) <= 100
    return printed


@pytest.mark.slow
def test_steps_on_the_device_train_the_same_in_less_time(capsys):
    last = last_lines(on_device_loop, capsys)[-1]
    found = re.search(r"100 steps an execution take (\d+)% .* of the weights: (\S+)", last)
    assert int(found[1]) < 90
    assert float(found[2]) < 1e-6


@pytest.mark.slow
def test_every_method_of_accumulation_trains_what_whole_batches_train(capsys):
    lines = last_lines(gradient_accumulation, capsys)[-3:]
    assert [line.split()[0] for line in lines] == ["sum", "mean", "running_mean"]
    assert all(float(line.split()[-1]) < 1e-5 for line in lines)


@pytest.mark.slow
def test_replicas_train_what_one_replica_trains_with_large_batches(capsys):
    last = last_lines(replication, capsys)[-1]
    assert last.startswith("largest difference between the weights of 1 and 4 replicas: ")
    assert float(last.split()[-1]) < 1e-5


@pytest.mark.slow
def test_mixed_precision_ends_with_types_and_scale(capsys):
    hidden, head, last = last_lines(mixed_precision, capsys)[-3:]
    assert hidden.endswith("weights float32, products float16")
    assert head.endswith("weights float32, products float32")
    assert re.fullmatch(r"the loss is scaled by \d+; \d of 200 updates .* were left out", last)


@pytest.mark.parametrize(
    ("tutorial", "stages"),
    [
        pytest.param(pipelining_sequential, 2, marks=pytest.mark.slow),
        (pipelining_functional, 4),
        pytest.param(pipelining_subclass, 2, marks=pytest.mark.slow),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
@pytest.mark.slow
def test_pipelining_ends_with_the_timeline_of_stages_and_their_bubbles(tutorial, stages, capsys):
    lines = last_lines(tutorial, capsys)
    begin = len(lines) - lines[::-1].index("stage  IPU")
    for stage, line in enumerate(lines[begin : begin + stages]):
        cells = line.split()
        assert (cells[0], "F0" in cells, "B0" in cells) == (str(stage), True, True)
        assert "." in cells
    text = " ".join(lines[begin + stages :])
    assert re.search(r"The bubble, in which IPUs wait for other stages, is [\d.]+% of their", text)


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda tutorial: tutorial.__name__)
def test_epochs_are_checked(tutorial, capsys):
    with pytest.raises(SystemExit):
        tutorial.main(["--epochs", "0"])
    assert "--epochs must be at least 1. Received: 0" in capsys.readouterr().err


def test_missing_scikit_learn_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn", None)
    with pytest.raises(SystemExit, match="pip install scikit-learn"):
        digits.load_digits()
