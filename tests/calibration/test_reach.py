"""How far the model may be off the measured points, kind by kind."""

from pathlib import Path

import pytest

from ipu_tf.calibration import compare, load_records

MEASURED = Path(__file__).with_name("calibration.json")

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
def comparison(measured):
    return compare(measured)


@pytest.fixture(scope="module")
def groups(comparison):
    return {(group.kind, group.chip): group for group in comparison.groups}


@pytest.mark.parametrize("group", WITHIN, ids="-".join)
def test_no_record_is_further_off(groups, group):
    assert abs(groups[group].worst_error) <= WITHIN[group], groups[group]


PLANNED_WITHIN = {
    ("conv_forward", "gc2"): 0.25,
    ("dense_matmul", "gc200"): 0.10,
    ("gemm_largest_square", "gc2"): 0.10,
    ("gemm_peak", "gc2"): 0.10,
}
"""Largest median error of what stands on the planner."""


@pytest.mark.parametrize("group", PLANNED_WITHIN, ids="-".join)
def test_plans_are_charged_about_right(groups, group):
    assert groups[group].median_error <= PLANNED_WITHIN[group], groups[group]


def test_products_measured_alone_have_plans_for_operands_that_lie_as_wanted(groups):
    assert abs(groups["dense_matmul", "gc200"].worst_error) <= 0.16


@pytest.mark.parametrize("group", [("conv_forward", "gc2"), ("dense_matmul", "gc200")])
def test_plans_are_in_the_right_order(groups, group):
    assert groups[group].rank_correlation >= 0.9


def test_every_measured_point_is_predicted(comparison):
    assert comparison.unknown_kinds == {}
    assert comparison.unpredicted == ()


PUBLISHED_WITHIN = {
    "exchange_all_to_all": 0.05,
    "exchange_broadcast": 0.05,
    "exchange_gather": 0.05,
    "exchange_point_to_point": 0.05,
    "exchange_scatter": 0.05,
    "host": 0.05,
    "link": 0.05,
    "reduce": 0.10,
    "tile_memory": 0.02,
}
"""Largest median error on points that no constant was fitted on."""


@pytest.fixture(scope="module")
def published():
    path = MEASURED.with_name("published.json")
    records = [one for one in load_records(path) if one.kind in PUBLISHED_WITHIN]
    return {group.kind: group for group in compare(records).groups}


@pytest.mark.parametrize("kind", PUBLISHED_WITHIN)
def test_further_points_are_met_as_well(published, kind):
    assert published[kind].median_error <= PUBLISHED_WITHIN[kind], published[kind]
