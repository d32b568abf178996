"""Counts of every tile as runs, and the waits that follow from them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipu_tf.machine.superstep import Superstep
from ipu_tf.machine.tile_figures import TileFigures, TileRuns


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_runs_hold_every_count(counts):
    runs = TileRuns.of(np.array(counts, np.int64))
    assert runs.counts.tolist() == counts
    assert runs.total == sum(counts)
    assert all(one != other for one, other in zip(runs.values, runs.values[1:], strict=False))


@pytest.mark.parametrize(
    ("values", "tiles"), [((), ()), ((1,), (2, 3)), ((1, 2), (4, 0)), ((1,), (-1,))]
)
def test_runs_that_are_none(values, tiles):
    with pytest.raises(ValueError, match="TileRuns needs runs of at least one tile, and a value"):
        TileRuns(values=values, tiles=tiles)


def test_tiles_wait_for_the_slowest_and_for_exchanges_of_others():
    found = TileFigures.of(
        compute=np.array([200, 50, 0, 0]),
        received_bytes=np.array([8, 0, 0, 0]),
        sent_bytes=np.array([0, 0, 8, 0]),
        compute_cycles=200,
        exchange_cycles=30,
    )
    assert found.sync_wait_cycles.counts.tolist() == [0, 150 + 30, 200, 200 + 30]


def test_a_superstep_is_the_same_on_any_tiles():
    even = TileFigures.of(
        compute=np.array([5, 5]),
        received_bytes=np.zeros(2, np.int64),
        sent_bytes=np.zeros(2, np.int64),
        compute_cycles=5,
        exchange_cycles=0,
    )
    one, other = (Superstep(name="add", compute_cycles=5, tiles=tiles) for tiles in (even, None))
    assert one == other
    assert hash(one) == hash(other)
    assert one.tile_figures is even
    assert other.tile_figures is None
