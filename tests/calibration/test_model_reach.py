"""How far predictions of models are off together."""

import pytest

from ipu_tf.calibration.compare import PointComparison
from ipu_tf.calibration.reach import reach_of


@pytest.fixture
def row(make):
    """Makes a predicted row of a network."""

    def row_(id_, network, predicted):
        record = make("model", {"network": network}, "items/s", id=id_, measured=100.0)
        return PointComparison(record=record, predicted=predicted)

    return row_


def test_networks_count_alike(row):
    rows = [row("a", "x", 200.0), row("b", "x", 50.0), row("c", "x", 200.0), row("d", "y", 110.0)]
    reach = reach_of([*rows, row("e", "z", None)])
    assert (reach.rows, reach.networks) == (4, 2)
    assert reach.median_by_row == pytest.approx(2)
    assert reach.median_by_network == pytest.approx((2 + 1.1) / 2)
    assert (reach.near, reach.worst, reach.worst_id) == (0.25, 2, "a")
    assert reach.text == (
        "4 rows of 2 networks: off by a median factor of 2.00 by row and 1.55 by network; 25% "
        "within 1.25; worst 2.00 (a)"
    )


def test_without_predictions_there_is_none(row):
    assert reach_of([row("a", "x", None)]) is None
