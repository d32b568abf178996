"""The figures of the standard networks are those that were pinned."""

import json

import pytest

from tests.golden import pin
from tests.networks import NETWORKS

PINNED = json.loads(pin.PINNED.read_text())


def test_every_network_is_pinned_on_every_chip():
    assert PINNED.keys() == NETWORKS.keys()
    assert {tuple(chips) for chips in PINNED.values()} == {pin.CHIPS}


@pytest.mark.parametrize("chip", pin.CHIPS)
@pytest.mark.parametrize("name", NETWORKS)
def test_figures_are_as_pinned(name, chip):
    assert pin.figures_of(name, chip) == PINNED[name][chip], (
        "if this is on purpose, run python -m tests.golden.pin and commit the difference"
    )
