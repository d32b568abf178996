import dataclasses

import pytest

from ipu_tf.machine import target
from ipu_tf.planner.candidates import Candidates
from ipu_tf.planner.padding import padding_cost
from ipu_tf.planner.plan import ConvPlan, ConvShape, MatMulPlan, MatMulShape

BOW = target("bow")
PLAN = MatMulPlan(rows=4, columns=2, method="amp_1x1_swapped", partials="float16")
LEFT, RIGHT, RESULT = 256 * 512, 512 * 128, 256 * 128
"""Elements of a product of 256 rows, 512 summed elements and 128 columns."""


def cost(m, k, n, arranged=(False, False), plan=PLAN):
    shape = MatMulShape(m=m, k=k, n=n, dtype="float16")
    return padding_cost(shape, Candidates.of(plan), BOW, arranged)


def test_whole_passes_are_not_copied():
    assert cost(256, 512, 128).total_cycles == 0
    assert cost(256, 512, 120).total_cycles == 0


def test_rows_that_fill_no_pass_are_copied_with_the_result():
    made = cost(252, 512, 128)
    assert made.compute_cycles == (LEFT + RESULT) // PLAN.tiles * 5 // 4
    sent_bytes = (LEFT + RESULT) // PLAN.tiles * 2
    assert made.exchange_cycles == BOW.exchange_fixed_cycles + sent_bytes // 4
    assert made.sync_cycles == BOW.sync_cycles


def test_odd_features_of_a_result_take_longer():
    odd, even = cost(251, 512, 128), cost(252, 512, 128)
    result = RESULT // PLAN.tiles
    assert odd.compute_cycles - even.compute_cycles == -(-result * 5 // 3) - result * 5 // 4


def test_both_operands_are_copied_if_sums_fill_no_pass():
    assert cost(256, 500, 128).compute_cycles == (LEFT + RIGHT) // PLAN.tiles * 5 // 4


def test_what_is_copied_anyway_is_not_copied_again():
    left, right = (cost(256, 500, 128, one) for one in ((False, True), (True, False)))
    assert left.compute_cycles == LEFT // PLAN.tiles * 5 // 4
    assert right.compute_cycles == RIGHT // PLAN.tiles * 5 // 4
    assert cost(256, 500, 128, (True, True)).total_cycles == 0


@pytest.mark.parametrize("method", ["horizontal_mac_swapped", "outer_product_swapped"])
def test_other_units_take_any_channels(method):
    plan = dataclasses.replace(PLAN, method=method)
    assert cost(250, 1, 120, plan=plan).total_cycles == 0


def test_an_expanded_image_is_copied_anyway():
    shape = ConvShape(
        batch=2, in_rows=16, in_columns=16, in_channels=3, out_channels=32, kernel_rows=3,
        kernel_columns=3, out_rows=14, out_columns=14, dtype="float16",
    )  # fmt: skip
    direct, expanded = (
        padding_cost(shape, Candidates.of(ConvPlan(method=method)), BOW)
        for method in ("amp_nx1", "amp_expanded")
    )
    assert direct.compute_cycles > 0
    assert expanded.total_cycles == 0
