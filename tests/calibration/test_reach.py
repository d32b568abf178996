"""How far the model may be off the measured points, kind by kind."""

import pytest

from ipu_tf.calibration import compare

WITHIN = {
    ("exchange_all_to_all", "gc2"): 0.05,
    ("exchange_broadcast", "gc2"): 0.05,
    ("exchange_gather", "gc2"): 0.05,
    ("exchange_point_to_point", "gc2"): 0.05,
    ("exchange_scatter", "gc2"): 0.05,
    ("amp_vertex", "bow"): 0.01,
    ("host", "gc2"): 0.05,
    ("link", "gc2"): 0.05,
    ("reduce", "gc2"): 0.10,
    ("tile_memory", "gc2"): 0.02,
    ("tile_memory", "gc200"): 0.02,
}
"""Largest error of any record."""


@pytest.fixture(scope="module")
def groups(measured):
    return {(group.kind, group.chip): group for group in compare(measured).groups}


@pytest.mark.parametrize("group", WITHIN, ids="-".join)
def test_no_record_is_further_off(groups, group):
    assert abs(groups[group].worst_error) <= WITHIN[group], groups[group]
