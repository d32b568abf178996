import dataclasses

import pytest

from ipu_tf.machine import target
from ipu_tf.planner.plan import ConvPlan, ConvShape, MatMulPlan, MatMulShape
from ipu_tf.planner.plan_cost import plan_cost, plan_phases
from ipu_tf.planner.plan_memory import plan_memory
from ipu_tf.planner.plan_steps import plan_supersteps
from ipu_tf.planner.planner import plan_conv

BOW = target("bow")
MATMUL = MatMulShape(m=256, k=512, n=128, dtype="float16")
CONV = ConvShape(
    batch=4,
    in_rows=32,
    in_columns=32,
    in_channels=32,
    out_channels=32,
    kernel_rows=3,
    kernel_columns=3,
    out_rows=30,
    out_columns=30,
    dtype="float16",
)


def names(shape, plan):
    return [step.name for step in plan_supersteps(shape, plan, BOW)]


def test_one_tile_multiplies_and_casts():
    assert names(MATMUL, MatMulPlan()) == ["multiply", "cast"]
    assert names(MATMUL, MatMulPlan(partials="float16")) == ["multiply"]


def test_partials_are_added_across_tiles():
    assert names(MATMUL, MatMulPlan(reduction=4)) == ["multiply", "reduce"]


def test_steps_follow_one_another():
    plan = MatMulPlan(rows=4, columns=2, serial_columns=2)
    assert names(MATMUL, plan) == ["slice", "multiply", "update", "cast"] * 2


def test_steps_of_a_reduction_accumulate_and_cast_once():
    plan = MatMulPlan(rows=4, reduction=2, serial_reduction=2)
    assert names(MATMUL, plan) == ["slice", "multiply", "accumulate"] * 2 + ["cast"]


@pytest.mark.parametrize(
    ("pass_", "first"),
    [("forward", "multiply"), ("input_gradient", "rearrange"), ("filter_gradient", "rearrange")],
)
def test_gradients_change_layouts_first(pass_, first):
    shape = dataclasses.replace(CONV, pass_=pass_)
    assert names(shape, plan_conv(shape, BOW))[0] == first


@pytest.mark.parametrize(
    "plan",
    [
        MatMulPlan(),
        MatMulPlan(rows=8, columns=4, reduction=8),
        MatMulPlan(rows=8, columns=4, serial_rows=2, serial_columns=4),
        MatMulPlan(rows=8, reduction=8, serial_reduction=4, method="horizontal_mac_swapped"),
        MatMulPlan(columns=8, method="amp_1x1_swapped"),
    ],
)
def test_supersteps_add_up_to_the_cost(plan):
    steps = plan_supersteps(MATMUL, plan, BOW)
    assert sum(step.total_cycles for step in steps) == plan_cost(MATMUL, plan, BOW)


def test_multiplication_by_hand():
    plan = MatMulPlan(rows=4, columns=2)
    (multiply, *_) = plan_supersteps(MATMUL, plan, BOW)
    # 64 rows and 64 columns of 512: half of the rows come from the other tile, three quarters of
    # the columns from others, and pairs of tiles receive the same columns.
    received = 64 * 512 * 2 // 2 + 64 * 512 * 2 * 3 // 4
    assert multiply.exchange_bytes == 8 * received
    moving = 64 * 512 * 2 // 2 // 4 + 64 * 512 * 2 * 3 // 4 // 8
    assert multiply.exchange_cycles == BOW.exchange_fixed_cycles + moving
    assert multiply.sync_cycles == BOW.sync_cycles
    assert multiply.busy_tile_cycles == 8 * multiply.compute_cycles


@pytest.mark.parametrize(
    ("depth", "stages"), [(1, 0), (2, 1), (15, 1), (16, 2), (124, 2), (125, 3)]
)
def test_deep_reductions_take_stages(depth, stages):
    shape = MatMulShape(m=16, k=16 * 128, n=16, dtype="float16")
    phases = plan_phases(shape, MatMulPlan(reduction=depth), BOW)
    (reduce,) = (phase for phase in phases if phase.name == "reduce")
    assert reduce.cost.sync_cycles == stages * BOW.sync_cycles


def test_stages_of_a_reduction_by_hand():
    shape = MatMulShape(m=64, k=16 * 125, n=64, dtype="float16")
    phases = plan_phases(shape, MatMulPlan(reduction=125, partials="float16"), BOW)
    (reduce,) = (phase for phase in phases if phase.name == "reduce")
    # Five partials three times, of 4096 elements, then of a fifth, then of a twenty-fifth.
    shares = (820, 164, 33)
    assert reduce.received_bytes == 2 * 4 * sum(shares)


def test_operands_are_turned_where_the_other_one_waits():
    kept, turned = (MatMulPlan(columns=8, method=m) for m in ("amp_1x1_swapped", "amp_1x1"))
    assert names(MATMUL, kept) == names(MATMUL, turned)[1:]
    (rearrange, *_) = plan_supersteps(MATMUL, turned, BOW)
    elements = (256 * 512 + 512 * 128 + 256 * 128) // 8
    assert rearrange.name == "rearrange"
    assert rearrange.compute_cycles == elements * 5 // 4
    assert rearrange.exchange_cycles == BOW.exchange_fixed_cycles + elements * 2 // 4
    both_bytes = (256 * 512 + 512 * 128) // 8 * 2
    assert plan_memory(MATMUL, turned, BOW).rearranged_bytes == both_bytes


def test_odd_channels_are_padded_on_the_tile():
    shape = dataclasses.replace(CONV, in_channels=3)
    plan = ConvPlan(field_rows=10)
    padded, whole = (
        step.compute_cycles
        for one in (shape, CONV)
        for step in plan_supersteps(one, plan, BOW)
        if step.name == "multiply"
    )
    assert padded > whole / 2


def test_memory_of_a_plan_by_hand():
    plan = MatMulPlan(rows=4, columns=2, reduction=2)
    memory = plan_memory(MATMUL, plan, BOW)
    assert memory.tiles == 16
    assert memory.operand_bytes == 2 * (64 * 256 + 64 * 256)
    assert memory.partial_bytes == 4 * 64 * 64
    assert memory.rearranged_bytes == memory.accumulator_bytes == memory.reduce_bytes == 0
    assert memory.scratch_bytes == memory.operand_bytes + memory.partial_bytes
    assert set(memory.code) == {"amp_1x1_swapped_float16", "reduce_partials"}
    # 16 groups of 16 inputs, 8 of 8 outputs, and one work item for each of six workers.
    assert memory.vertex_state_bytes == 28 + 4 * (16 + 8 + 16 * 8) + 6 * 6


def test_memory_of_steps():
    plan = MatMulPlan(rows=4, reduction=4, serial_reduction=2)
    memory = plan_memory(MATMUL, plan, BOW)
    assert memory.accumulator_bytes == 4 * 64 * 128 // 2
    assert memory.rearranged_bytes > 0
    assert "serial_steps" in memory.code


def test_expanded_images_take_their_place():
    plain, expanded = (
        plan_memory(CONV, ConvPlan(field_rows=30, method=method), BOW)
        for method in ("amp_nx1", "amp_expanded")
    )
    # 4 images x one row of 30 x 9 taps x 32 channels of two bytes.
    assert expanded.operand_bytes - plain.operand_bytes == 4 * 30 * 9 * 32 * 2


def test_passes_of_several_rows_fill_up_fewer_channels():
    few = dataclasses.replace(
        CONV, in_channels=3, padding=(1, 1, 1, 1), out_rows=32, out_columns=32
    )
    plans = [ConvPlan(field_rows=16, method=name) for name in ("amp_nx1", "amp_nx1_4_rows")]
    plain, by_rows = (plan_memory(few, plan, BOW).operand_bytes for plan in plans)
    # 4 images, filled up to 16 channels under 3 rows, or to 4 under 4 rows of the filter.
    assert plain == 2 * (4 * 4 * 32 * 16 + 3 * 3 * 16 * 32)
    assert by_rows == 2 * (4 * 5 * 32 * 4 + 4 * 3 * 4 * 32)


def test_an_image_expanded_by_rows_of_the_filter_shares_its_rows():
    plain, expanded = (
        plan_memory(CONV, ConvPlan(field_rows=15, method=method), BOW)
        for method in ("amp_nx1", "amp_nx1_expanded")
    )
    # 4 images x the four rows under two rows of outputs x 30 columns x 3 taps x 32 channels.
    assert expanded.operand_bytes - plain.operand_bytes == 4 * 4 * 30 * 3 * 32 * 2
