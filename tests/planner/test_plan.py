import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipu_tf.machine import target
from ipu_tf.planner.candidates import Candidates
from ipu_tf.planner.partition import cut_unit, largest_part, largest_part_elements
from ipu_tf.planner.plan import (
    ConvPlan,
    ConvShape,
    MatMulPlan,
    MatMulShape,
    PlanDoesNotFit,
    check_parts,
    largest_block,
    partial_dtype,
    partition,
)
from ipu_tf.planner.plan_blocks import plan_blocks
from ipu_tf.planner.plan_check import check
from ipu_tf.planner.shapes import fold_depth

TILES_16 = target("bow", 16)
MATMUL = MatMulShape(m=40, k=100, n=24)
CONV = ConvShape(
    batch=4,
    in_rows=9,
    in_columns=11,
    in_channels=6,
    out_channels=8,
    groups=2,
    kernel_rows=3,
    kernel_columns=2,
    out_rows=5,
    out_columns=10,
    strides=(2, 1),
    padding=(1, 1, 0, 0),
)


@st.composite
def splittable(draw):
    grain = draw(st.integers(1, 20))
    n = draw(st.integers(1, 300))
    return n, draw(st.integers(1, -(-n // grain))), grain


@given(splittable())
def test_every_element_is_in_one_part_and_no_part_is_empty(case):
    n, parts, grain = case
    ranges = partition(n, parts, grain)
    assert list(itertools.chain(*(range(*part) for part in ranges))) == list(range(n))
    assert len(ranges) == parts
    assert all(begin < end for begin, end in ranges)
    assert all(begin % grain == 0 for begin, _ in ranges)


@given(splittable())
def test_largest_part_bounds_every_part_to_a_grain(case):
    n, parts, grain = case
    largest = max(end - begin for begin, end in partition(n, parts, grain))
    assert largest <= largest_part(n, parts, grain) < largest + grain
    assert largest_part_elements(n, parts, grain) == largest
    assert largest_part(np.array([n]), np.array([parts]), grain) == largest_part(n, parts, grain)


@given(splittable())
def test_all_borders_are_multiples_of_the_unit_of_a_cut(case):
    n, parts, grain = case
    unit = cut_unit(n, parts, grain)
    assert all(end % unit == 0 for _, end in partition(n, parts, grain))
    assert cut_unit(n, np.array([parts]), grain) == [unit]
    if grain == 1:
        assert unit == math.gcd(*(end for _, end in partition(n, parts)))


def test_partition_by_hand():
    # 5 grains of 8 in 3 parts: 1, 2 and 2 grains, the last one short.
    assert partition(37, 3, 8) == ((0, 8), (8, 24), (24, 37))


def test_partition_rejects_more_parts_than_grains():
    with pytest.raises(ValueError, match=r"10 elements in grains of 8 .* 3 parts.*only 2 grains"):
        partition(10, 3, 8)


@pytest.mark.parametrize(("n", "parts", "grain"), [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_partition_rejects_nothing(n, parts, grain):
    with pytest.raises(ValueError, match=f"Received: n={n}, parts={parts}, grain={grain}"):
        partition(n, parts, grain)


def test_plans_list_their_splits_in_the_order_of_the_op():
    plan = MatMulPlan(batch=2, rows=3, columns=4, reduction=5, grain=8)
    assert plan.to_list() == [2, 3, 4, 5, 8]
    assert plan.tiles == 120
    conv = ConvPlan(
        batch=1,
        groups=2,
        field_rows=3,
        field_columns=4,
        out_channels=5,
        in_channels=6,
        kernel_rows=7,
        kernel_columns=8,
        grain=9,
    )
    assert conv.to_list() == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert conv.tiles == 40320


def test_plans_are_frozen_and_hashable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        MatMulPlan().rows = 2
    assert len({MatMulPlan(), MatMulPlan(), MatMulPlan(rows=2)}) == 2


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "2"])
def test_plans_take_positive_ints(value):
    with pytest.raises(ValueError, match=r"MatMulPlan\.rows must be a positive int\. Received"):
        MatMulPlan(rows=value)
    with pytest.raises(ValueError, match=r"ConvPlan\.grain must be a positive int\. Received"):
        ConvPlan(grain=value)


def test_plans_know_two_types_of_partials():
    with pytest.raises(ValueError, match=r"ConvPlan\.partials must be .* Received: 'half'"):
        ConvPlan(partials="half")


def test_float32_inputs_have_float32_partials():
    assert partial_dtype("float32", "float16") == "float32"
    assert partial_dtype("float16", "float16") == "float16"
    with pytest.raises(ValueError, match=r"`partials` must be .* Received: 'half'"):
        partial_dtype("float16", "half")


@pytest.mark.parametrize("name", ["batch", "m", "k", "n"])
def test_shapes_have_no_empty_dimensions(name):
    with pytest.raises(ValueError, match=f"MatMulShape.{name} must be positive.*Received: 0"):
        dataclasses.replace(MATMUL, **{name: 0})


def test_shapes_are_float32_or_float16():
    with pytest.raises(ValueError, match=r"MatMulShape\.dtype must be .* Received: 'float64'"):
        dataclasses.replace(MATMUL, dtype="float64")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pass_": "backward"}, r"pass_ must be one of .* Received: 'backward'"),
        ({"strides": (1,)}, r"strides must have 2 entries\. Received: \(1,\)"),
        ({"strides": (0, 1)}, r"strides must be positive .* Received: \(0, 1\)"),
        ({"padding": (0, 0, -1, 0)}, r"padding must be non-negative .* Received: \(0, 0, -1, 0\)"),
        ({"out_rows": 6}, r"has 5 x 10 positions\. Received: out_rows=6, out_columns=10"),
        ({"groups": 0}, r"groups must be positive"),
    ],
)
def test_conv_shapes_are_consistent(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(CONV, **changes)


def test_extents_of_the_three_conv_passes():
    forward = {
        "batch": 4,
        "groups": 2,
        "field_rows": 5,
        "field_columns": 10,
        "out_channels": 8,
        "in_channels": 6,
        "kernel_rows": 3,
        "kernel_columns": 2,
    }
    assert CONV.extents == forward
    input_gradient = dataclasses.replace(CONV, pass_="input_gradient")
    assert input_gradient.extents == forward | {
        "field_rows": 9,
        "field_columns": 11,
        "out_channels": 6,
        "in_channels": 8,
    }
    filter_gradient = dataclasses.replace(CONV, pass_="filter_gradient")
    assert filter_gradient.extents == forward
    assert filter_gradient.grained_split == "field_columns"
    assert filter_gradient.reduction_splits == ("batch", "field_rows", "field_columns")


def test_bytes_of_a_matmul_block_by_hand():
    plan = MatMulPlan(rows=4, columns=3, reduction=2, grain=8)
    # 13 grains of 8 in 2 parts: the larger has 7 grains.
    expected = {"batch": 1, "rows": 10, "columns": 8, "reduction": 56}
    assert largest_block(MATMUL, plan.splits, plan.grain) == expected
    blocks = plan_blocks(MATMUL, Candidates.of(plan), TILES_16)
    assert (blocks.left_bytes, blocks.right_bytes) == (4 * 10 * 56, 4 * 56 * 8)
    # The left block waits in the units: its 10 rows are filled up to the 16 of a pass.
    assert blocks.partial_bytes == 4 * 16 * 8
    assert blocks.padded_bytes == 4 * (16 * 56 + 56 * 8)


def test_bytes_without_amp_are_not_padded():
    plan = MatMulPlan(rows=4, columns=3, reduction=2, grain=8, method="horizontal_mac_swapped")
    blocks = plan_blocks(MATMUL, Candidates.of(plan), TILES_16)
    assert blocks.partial_bytes == 4 * 10 * 8
    assert blocks.padded_bytes == blocks.left_bytes + blocks.right_bytes


@pytest.mark.parametrize(
    ("pass_", "left", "right", "output"),
    [
        # Rows of x under 5 windows of 3 at stride 2: 11, of which 9 exist; columns: 11.
        ("forward", 2 * 2 * 9 * 11 * 6, 2 * 3 * 2 * 6 * 8, 2 * 2 * 5 * 10 * 8),
        # All of dy is under the windows over dx.
        ("input_gradient", 2 * 2 * 5 * 10 * 8, 2 * 3 * 2 * 8 * 6, 2 * 2 * 9 * 11 * 6),
        ("filter_gradient", 2 * 2 * 9 * 11 * 6, 2 * 2 * 5 * 10 * 8, 2 * 3 * 2 * 6 * 8),
    ],
)
def test_bytes_of_a_conv_block_by_hand(pass_, left, right, output):
    shape = dataclasses.replace(CONV, pass_=pass_)
    plan = ConvPlan(batch=2, grain=8)
    operands = shape.operands(largest_block(shape, plan.splits, plan.grain))
    assert (operands.left, operands.right, operands.output) == (left, right, output)


def test_a_conv_block_holds_its_halo():
    plan = ConvPlan(batch=4, groups=2, field_rows=5, grain=8)
    block = largest_block(CONV, plan.splits, plan.grain)
    assert CONV.operands(block).left == 3 * 11 * 6


@pytest.mark.parametrize(
    ("pass_", "kernel", "left"),
    [
        ("forward", 1, 4 * 6 * 8),
        ("filter_gradient", 1, 4 * 6 * 8),
        # Windows of 3 at stride 2 leave no row out: 4 x 2 + 1 rows, all columns.
        ("forward", 3, 9 * 12 * 8),
    ],
)
def test_pixels_that_strides_skip_are_not_fetched(pass_, kernel, left):
    shape = ConvShape(
        pass_=pass_, batch=1, in_rows=16, in_columns=12, in_channels=8, out_channels=8,
        kernel_rows=kernel, kernel_columns=kernel, out_rows=8, out_columns=6, strides=(2, 2),
        padding=(0, kernel // 2, 0, kernel // 2),
    )  # fmt: skip
    block = largest_block(shape, ConvPlan(field_rows=2).splits, 8)
    assert shape.operands(block).left == left
    assert shape.left_read_share == (1 / 4 if kernel == 1 else 1)


def test_a_part_of_a_filter_fetches_all_between_its_taps():
    shape = dataclasses.replace(CONV, groups=1)
    block = largest_block(shape, ConvPlan(kernel_rows=3, grain=8).splits, 8)
    assert block["kernel_rows"] == 1
    assert shape.operands(block).left == 4 * 9 * 11 * 6


def test_check_accepts_what_fits():
    check(MatMulPlan(rows=4, columns=2, reduction=2, grain=8), MATMUL, TILES_16)
    check(ConvPlan(batch=4, groups=2, kernel_rows=2, grain=8), CONV, TILES_16)


def test_check_names_the_split_that_is_too_fine():
    with pytest.raises(
        ValueError, match=r"matmul: the plan splits reduction of 100 elements \(grain 16\) into 8 p"
    ):
        check(MatMulPlan(reduction=8), MATMUL, TILES_16)
    with pytest.raises(ValueError, match="conv2d: the plan splits groups of 2 elements into 3 par"):
        check(ConvPlan(groups=3), CONV, TILES_16)


def test_check_counts_tiles():
    with pytest.raises(ValueError, match=r"matmul: the plan needs 20 tiles, the bow target has 16"):
        check(MatMulPlan(rows=20), MATMUL, TILES_16)


def test_check_counts_bytes():
    shape = MatMulShape(m=1000, k=1000, n=1000)
    with pytest.raises(
        PlanDoesNotFit,
        match=r"needs 12128256 bytes of its fullest tile, 319488 are available \(0\.5 of 638976",
    ):
        check(MatMulPlan(), shape, TILES_16, 0.5)


@pytest.mark.parametrize("proportion", [0.0, -0.1, 1.5])
def test_check_takes_a_share(proportion):
    with pytest.raises(ValueError, match=f"above 0 and at most 1. Received: {proportion}"):
        check(MatMulPlan(), MATMUL, TILES_16, proportion)


def test_check_wants_the_plan_of_the_op():
    with pytest.raises(ValueError, match="MatMulPlan does not describe a conv2d: it takes a ConvP"):
        check(MatMulPlan(), CONV, TILES_16)
    with pytest.raises(ValueError, match="ConvPlan does not describe a matmul: it takes a MatMulP"):
        check(ConvPlan(), MATMUL, TILES_16)


def test_serial_steps_share_a_tile():
    plan = MatMulPlan(rows=4, columns=6, reduction=2, serial_rows=2, serial_columns=3)
    assert (plan.parts, plan.steps, plan.tiles) == (48, 6, 8)
    assert plan.to_list() == [1, 4, 6, 2, 16]


def test_every_tile_takes_as_many_steps():
    with pytest.raises(
        ValueError, match=r"serial_rows must divide the 4 parts of rows: .* Received: 3"
    ):
        MatMulPlan(rows=4, serial_rows=3)


def test_plans_know_the_methods():
    with pytest.raises(ValueError, match=r"method must be one of 'amp_1x1', .* Received: 'fft'"):
        MatMulPlan(method="fft")


def test_check_names_the_methods_that_can_compute_an_op():
    with pytest.raises(ValueError, match="conv2d: 'slic' cannot compute .* Use one of amp_nx1, "):
        check(ConvPlan(method="slic", grain=8), CONV, TILES_16)


def test_steps_of_a_reduction_add_up_in_order():
    plan = ConvPlan(kernel_rows=3, in_channels=2, serial_in_channels=2, grain=4)
    with pytest.raises(
        ValueError, match="sums over in_channels in steps and splits kernel_rows, whose part"
    ):
        check_parts(plan, CONV)


def test_a_folded_depth_keeps_the_multiplications():
    folded = fold_depth(CONV, kernel_depth=3, out_depth=5)
    assert folded.batch == 5 * CONV.batch
    assert folded.in_channels == 3 * CONV.in_channels
    assert folded.out_channels == CONV.out_channels
