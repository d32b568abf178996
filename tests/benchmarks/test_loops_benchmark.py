"""The benchmark of loops: all sides train alike, and the loop of the device is fastest."""

import argparse

import numpy as np
import pytest

from benchmarks import loops
from benchmarks.__main__ import parse


@pytest.mark.slow
def test_all_sides_have_the_same_losses_and_the_wanted_ratios():
    result = loops.run(argparse.Namespace(rounds=3, steps=400))
    assert result["largest_difference_of_losses"] < 1e-5
    for name, wanted in loops.WANTED.items():
        assert result["ratio"][name]["of_fastest_rounds"] > wanted


@pytest.mark.slow
def test_a_loop_of_the_device_trains_as_a_stock_loop():
    ours, stock = (make(3, False)() for make in (loops.repeat, loops.loop_in_function))
    np.testing.assert_allclose(ours, stock, rtol=1e-5)


def test_a_round_has_steps(capsys):
    with pytest.raises(SystemExit):
        parse(["loops", "--steps", "0"])
    assert "--steps must be at least 1" in capsys.readouterr().err
