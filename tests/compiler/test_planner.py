import dataclasses

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ipu_tf.compiler.plan import (
    ConvPlan,
    ConvShape,
    MatMulPlan,
    MatMulShape,
    PlanDoesNotFit,
    check,
)
from ipu_tf.compiler.plan_cost import plan_bytes, plan_cost
from ipu_tf.compiler.planner import plan_conv, plan_matmul
from ipu_tf.compiler.shapes import CONV_PASSES
from ipu_tf.compiler.windows import window_extent
from ipu_tf.machine import target

BOW = target("bow")

SIZES = st.integers(1, 200)
DTYPES = st.sampled_from(["float32", "float16"])
PARTIALS = st.sampled_from(["float32", "float16"])
MACHINES = st.sampled_from(["gc2", "gc200", "bow", "c600"]).flatmap(
    lambda chip: st.sampled_from([1, 4, 13, 16, 0]).map(lambda tiles: target(chip, tiles))
)
MATMULS = st.builds(MatMulShape, batch=st.integers(1, 12), m=SIZES, k=SIZES, n=SIZES, dtype=DTYPES)


@st.composite
def convs(draw):
    size = st.integers(1, 20)
    sizes, kernel = (draw(size), draw(size)), (draw(st.integers(1, 5)), draw(st.integers(1, 5)))
    strides = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    dilations = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    padding = tuple(draw(st.integers(0, 3)) for _ in range(4))
    outputs = [
        window_extent(
            size=sizes[axis],
            kernel=kernel[axis],
            stride=strides[axis],
            dilation=dilations[axis],
            padding=padding[2 * axis : 2 * axis + 2],
        )
        for axis in (0, 1)
    ]
    assume(min(outputs) > 0)
    return ConvShape(
        pass_=draw(st.sampled_from(CONV_PASSES)),
        batch=draw(st.integers(1, 8)),
        in_rows=sizes[0],
        in_columns=sizes[1],
        in_channels=draw(st.integers(1, 40)),
        out_channels=draw(st.integers(1, 40)),
        groups=draw(st.integers(1, 6)),
        kernel_rows=kernel[0],
        kernel_columns=kernel[1],
        out_rows=outputs[0],
        out_columns=outputs[1],
        strides=strides,
        dilations=dilations,
        padding=padding,
        dtype=draw(DTYPES),
    )


def image_conv(**changes):
    """Returns the second convolution of the CIFAR-10 network."""
    shape = ConvShape(
        batch=64,
        in_rows=32,
        in_columns=32,
        in_channels=32,
        out_channels=32,
        kernel_rows=3,
        kernel_columns=3,
        out_rows=30,
        out_columns=30,
    )
    return dataclasses.replace(shape, **changes)


def cycles(shape, plan, machine=BOW):
    cost = plan_cost(shape, plan.splits, grain=plan.grain, partials=plan.partials, target=machine)
    return int(cost.total_cycles)


def check_planned(shape, plan, machine):
    """Checks a plan against the proportion, or against the tile where only that can be met."""
    try:
        check(plan, shape, machine, 0.6)
    except PlanDoesNotFit:
        check(plan, shape, machine, 1.0)
        needed = plan_bytes(shape, plan.splits, grain=plan.grain, partials=plan.partials)
        assert needed > 0.6 * machine.tile_bytes


@given(MATMULS, MACHINES, PARTIALS)
def test_matmul_plans_are_possible(shape, machine, partials):
    try:
        plan = plan_matmul(shape, machine, partials=partials)
    except PlanDoesNotFit:
        assume(False)
    check_planned(shape, plan, machine)


@given(convs(), MACHINES, PARTIALS)
def test_conv_plans_are_possible(shape, machine, partials):
    try:
        plan = plan_conv(shape, machine, partials=partials)
    except PlanDoesNotFit:
        assume(False)
    check_planned(shape, plan, machine)


@pytest.mark.parametrize("name", ["batch", "m", "k", "n"])
def test_twice_the_matmul_never_costs_less(name):
    shape = MatMulShape(batch=16, m=4, k=4, n=4)
    costs = []
    for _ in range(9):
        costs.append(cycles(shape, plan_matmul(shape, BOW)))
        shape = dataclasses.replace(shape, **{name: 2 * getattr(shape, name)})
    assert costs == sorted(costs)
    assert costs[-1] > costs[0]


@pytest.mark.parametrize("pass_", CONV_PASSES)
@pytest.mark.parametrize("name", ["batch", "in_channels", "out_channels", "groups"])
def test_twice_the_conv_never_costs_less(pass_, name):
    shape = image_conv(pass_=pass_, batch=1, in_channels=4, out_channels=4)
    costs = []
    for _ in range(6):
        costs.append(cycles(shape, plan_conv(shape, BOW)))
        shape = dataclasses.replace(shape, **{name: 2 * getattr(shape, name)})
    assert costs == sorted(costs)
    assert costs[-1] > costs[0]


@pytest.mark.parametrize("pass_", CONV_PASSES)
def test_planning_beats_one_tile_and_uses_the_machine(pass_):
    shape = image_conv(pass_=pass_)
    plan = plan_conv(shape, BOW)
    assert plan.tiles > BOW.tiles // 2
    assert cycles(shape, plan) < cycles(shape, ConvPlan(grain=8)) / 200


def test_the_best_of_all_plans_of_a_small_machine_is_found():
    machine = target("bow", 4)
    shape = MatMulShape(m=48, k=64, n=48)
    found = plan_matmul(shape, machine)
    everything = [
        MatMulPlan(rows=rows, columns=columns, reduction=reduction, grain=8)
        for rows in (1, 2, 3, 4)
        for columns in (1, 2, 3)
        for reduction in (1, 2, 3, 4)
        if rows * columns * reduction <= machine.tiles
    ]
    assert cycles(shape, found, machine) == min(cycles(shape, p, machine) for p in everything)


def test_ties_go_to_fewer_reduction_parts():
    # One element has nothing to split: any plan but the trivial one costs more or as much.
    assert plan_matmul(MatMulShape(m=1, k=1, n=1), BOW).to_list() == [1, 1, 1, 1, 8]


def test_ties_go_to_splits_of_outer_extents():
    # A 1x1 convolution costs the same however its square field is split.
    shape = ConvShape(
        batch=1,
        in_rows=32,
        in_columns=32,
        in_channels=8,
        out_channels=16,
        kernel_rows=1,
        kernel_columns=1,
        out_rows=32,
        out_columns=32,
    )
    plan = plan_conv(shape, target("bow", 8))
    assert (plan.field_rows, plan.field_columns) == (8, 1)


def test_grain_and_partials_follow_the_type():
    half = MatMulShape(m=8, k=64, n=8, dtype="float16")
    assert plan_matmul(half, BOW, partials="float16").partials == "float16"
    assert plan_matmul(half, BOW).grain == 16
    single = dataclasses.replace(half, dtype="float32")
    assert plan_matmul(single, BOW, partials="float16").partials == "float32"
    assert plan_matmul(single, BOW).grain == 8


def test_less_memory_takes_more_or_smaller_blocks():
    shape = image_conv()

    def needed(proportion):
        plan = plan_conv(shape, BOW, available_memory_proportion=proportion)
        return plan_bytes(shape, plan.splits, grain=plan.grain, partials=plan.partials)

    assert needed(0.06) <= 0.06 * BOW.tile_bytes < needed(0.6)


def test_the_plan_of_least_memory_is_taken_where_the_proportion_is_too_small():
    shape = image_conv()
    plan = plan_conv(shape, BOW, available_memory_proportion=0.001)
    needed = plan_bytes(shape, plan.splits, grain=plan.grain, partials=plan.partials)
    assert 0.001 * BOW.tile_bytes < needed < 0.06 * BOW.tile_bytes


def test_what_no_plan_fits_is_an_error():
    with pytest.raises(
        PlanDoesNotFit,
        match=r"every plan on 4 tiles needs at least \d+ bytes of a tile, a tile of gc2 has 262144",
    ):
        plan_matmul(MatMulShape(m=4096, k=4096, n=4096), target("gc2", 4))


@pytest.mark.parametrize("proportion", [0.0, 1.1])
def test_the_proportion_is_a_share(proportion):
    with pytest.raises(ValueError, match=f"above 0 and at most 1. Received: {proportion}"):
        plan_matmul(MatMulShape(m=1, k=1, n=1), BOW, available_memory_proportion=proportion)


def test_partials_have_one_of_two_types():
    with pytest.raises(
        ValueError, match=r"`partials` must be 'float32' or 'float16'\. Received: 'ha"
    ):
        plan_conv(image_conv(), BOW, partials="half")


def test_equal_questions_are_answered_from_the_cache():
    assert plan_conv(image_conv(), BOW) is plan_conv(image_conv(), BOW)
