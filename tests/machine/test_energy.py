"""Energies of operations are the published ones."""

import dataclasses

import pytest

from ipu_tf.machine import CHIPS
from ipu_tf.machine.energy import flop_energies


@pytest.mark.parametrize(
    ("dtype", "partials", "picojoules"),
    [
        ("float16", "float16", 1.0),
        ("float16", "float32", 1.3),
        ("float32", "float32", 2.5),
        ("float8", "float16", 2.5),  # A Bow has no float8: programs compute in a wider type.
    ],
)
def test_energies_of_the_mk2_die(dtype, partials, picojoules):
    for chip in ("gc200", "bow"):
        found = flop_energies(CHIPS[chip]).joules(dtype, partials)
        assert found == pytest.approx(picojoules * 1e-12)


def test_float8_takes_half_of_float16():
    energies = flop_energies(CHIPS["c600"])
    assert energies.joules("float8") == energies.joules("float16", "float16") / 2


def test_chips_without_energies():
    assert flop_energies(CHIPS["gc2"]) is None
    assert flop_energies(dataclasses.replace(CHIPS["bow"], chip="mine")) is None
    assert flop_energies(dataclasses.replace(CHIPS["bow"], tiles=100)) is not None
