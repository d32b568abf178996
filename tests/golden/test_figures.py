"""The figures of the standard networks are those that were pinned."""

import json

import pytest

from tests.golden import pin
from tests.grids import covering
from tests.networks import NETWORKS

PINNED = json.loads(pin.PINNED.read_text())


def test_every_network_is_pinned_on_every_chip():
    assert PINNED.keys() == NETWORKS.keys()
    assert {tuple(chips) for chips in PINNED.values()} == {pin.CHIPS}


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(*covering(1, name=list(NETWORKS), chip=pin.CHIPS))
def test_figures_are_as_pinned(name, chip):
    assert pin.figures_of(name, chip) == PINNED[name][chip], (
        "if this is on purpose, run python -m tests.golden.pin and commit the difference"
    )
