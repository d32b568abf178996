import dataclasses
import itertools
import time

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ipu_tf.machine import target
from ipu_tf.machine.contractions import METHODS
from ipu_tf.planner.arrivals import ranked_cycles
from ipu_tf.planner.candidates import Candidates
from ipu_tf.planner.methods import methods_for
from ipu_tf.planner.plan import ConvPlan, ConvShape, MatMulPlan, MatMulShape, PlanDoesNotFit
from ipu_tf.planner.plan_blocks import scratch_bytes
from ipu_tf.planner.plan_bound import least_cycles, least_cycles_by
from ipu_tf.planner.plan_check import check
from ipu_tf.planner.plan_cost import plan_cost
from ipu_tf.planner.planner import plan_conv, plan_matmul
from ipu_tf.planner.releases import CURRENT, FIRST, Release
from ipu_tf.planner.search_space import in_fewest_steps
from ipu_tf.planner.shapes import AMP_GRAINS, CONV_PASSES
from ipu_tf.planner.windows import window_extent

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


def cycles(shape, plan, machine=BOW, release=CURRENT):
    """The cycles by which a release ranks a plan."""
    price = ranked_cycles if release.arrivals else plan_cost
    return int(price(shape, Candidates.of(plan), machine))


def needed_bytes(shape, plan, machine=BOW):
    return int(scratch_bytes(shape, Candidates.of(plan), machine))


def check_planned(shape, plan, machine):
    """Checks a plan against the proportion, or against the tile where only that can be met."""
    try:
        check(plan, shape, machine, 0.6)
    except PlanDoesNotFit:
        check(plan, shape, machine, 1.0)
        assert needed_bytes(shape, plan, machine) > 0.6 * machine.tile_bytes


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


@pytest.mark.fast_cells(2)
@pytest.mark.parametrize("pass_", CONV_PASSES)
@pytest.mark.parametrize("name", ["batch", "in_channels", "out_channels", "groups"])
def test_twice_the_conv_never_costs_less(pass_, name):
    """Channels fill passes: those that do not are copied before."""
    shape = image_conv(pass_=pass_, batch=1, in_channels=16, out_channels=16)
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
        MatMulPlan(rows=rows, columns=columns, reduction=reduction, grain=8, method=method)
        for method in methods_for(shape)
        for rows, columns, reduction in itertools.product((1, 2, 3, 4), repeat=3)
        if rows * columns * reduction <= machine.tiles
        # The operand in the AMP units is at least as wide as their 16 columns.
        and (rows if METHODS[method].swapped else columns) <= 48 // 16
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
        return needed_bytes(shape, plan)

    assert needed(0.06) <= 0.06 * BOW.tile_bytes < needed(0.6)


def test_the_plan_of_least_memory_is_taken_where_the_proportion_is_too_small():
    shape = image_conv()
    plan = plan_conv(shape, BOW, available_memory_proportion=0.001)
    needed = needed_bytes(shape, plan)
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


@pytest.mark.parametrize("pass_", CONV_PASSES)
def test_no_hand_made_conv_plan_is_better(pass_):
    machine = target("bow", 16)
    shape = image_conv(pass_=pass_, batch=4, in_channels=16, dtype="float16")
    found = cycles(shape, plan_conv(shape, machine), machine)
    for method, batch, rows, channels in itertools.product(
        methods_for(shape), (1, 2, 4), (1, 2, 4), (1, 2)
    ):
        plan = ConvPlan(batch=batch, field_rows=rows, out_channels=channels, method=method)
        if plan.tiles <= machine.tiles:
            assert found <= cycles(shape, plan, machine)


@given(MATMULS, st.data())
def test_the_bound_is_below_the_cost_of_a_matmul(shape, data):
    check_bound(shape, MatMulPlan, data)


@given(convs(), st.data())
def test_the_bound_is_below_the_cost_of_a_conv(shape, data):
    check_bound(shape, ConvPlan, data)


def check_bound(shape, plan_type, data):
    grain = AMP_GRAINS[shape.dtype]
    parts = {
        name: data.draw(
            st.integers(1, -(-extent // (grain if name == shape.grained_split else 1))), label=name
        )
        for name, extent in shape.extents.items()
    }
    steps = {
        f"serial_{name}": data.draw(st.sampled_from([1, parts[name]]), label=name)
        for name in plan_type.serial_names()
    }
    method = data.draw(st.sampled_from(methods_for(shape)))
    plan = plan_type(**parts, **steps, grain=grain, method=method)
    assert least_cycles(shape, Candidates.of(plan), BOW) <= plan_cost(shape, plan, BOW)


def test_large_operands_are_taken_in_steps():
    shape = MatMulShape(m=8192, k=8192, n=8192, dtype="float16")
    plan = plan_matmul(shape, BOW)
    assert plan.steps > 1
    check(plan, shape, BOW, 0.6)


def test_steps_are_taken_only_where_they_are_needed():
    shape = MatMulShape(m=512, k=512, n=512)
    assert plan_matmul(shape, BOW).steps == 1


@pytest.mark.parametrize(
    "shape",
    [MatMulShape(m=1000, k=1000, n=1000), MatMulShape(m=128, k=66000, n=128, dtype="float16")],
)
def test_one_extent_is_taken_in_steps_at_a_time(shape):
    plan = plan_matmul(shape, target("bow", 16))
    assert sum(steps > 1 for steps in plan.serial.values()) == 1


@pytest.mark.parametrize("k", [100_000, 99_999, 30_030])
def test_steps_of_a_reduction_are_of_one_size(k):
    plan = plan_matmul(MatMulShape(m=64, k=k, n=64), target("gc2", 16))
    assert plan.serial_reduction > 1
    assert k % plan.serial_reduction == 0


SMALL = target("gc2", 8)
LIMIT_BYTES = int(0.6 * SMALL.tile_bytes)
IN_STEPS = MatMulShape(m=512, k=480, n=512)
"""A matmul that such a machine holds in steps alone."""


def stepped_plans(release):
    """Yields all plans in steps, of rows or columns, that fill the machine."""
    splits = itertools.product((1, 2, 4, 8), repeat=3)
    for rows, columns, reduction in splits:
        if rows * columns * reduction == SMALL.tiles:
            for steps in (2, 4, 8, 16, 32):
                common = {"columns": columns, "reduction": reduction, "grain": 8}
                yield MatMulPlan(rows=rows * steps, serial_rows=steps, **common)
                if release is CURRENT:
                    common["columns"] *= steps
                    yield MatMulPlan(rows=rows, serial_columns=steps, **common)


def fits(plan):
    return needed_bytes(IN_STEPS, plan, SMALL) <= LIMIT_BYTES


def test_the_best_of_all_plans_in_steps_is_found():
    found = cycles(IN_STEPS, plan_matmul(IN_STEPS, SMALL), SMALL)
    possible = [plan for plan in stepped_plans(CURRENT) if fits(plan)]
    assert possible
    assert found <= min(cycles(IN_STEPS, plan, SMALL) for plan in possible)


def test_the_first_release_finds_the_plan_of_least_memory_within_its_cycles():
    found = plan_matmul(IN_STEPS, SMALL, release=FIRST)
    fastest = dataclasses.replace(FIRST, cycle_backoff=0.0)
    most = 1.2 * cycles(IN_STEPS, plan_matmul(IN_STEPS, SMALL, release=fastest), SMALL, FIRST)
    possible = [p for p in stepped_plans(FIRST) if cycles(IN_STEPS, p, SMALL, FIRST) <= most]
    assert possible
    assert cycles(IN_STEPS, found, SMALL, FIRST) <= most
    needed = needed_bytes(IN_STEPS, found, SMALL)
    assert needed <= min(needed_bytes(IN_STEPS, plan, SMALL) for plan in possible)


def test_plans_are_taken_in_no_more_steps_than_make_them_fit():
    splits = {"batch": [1, 1], "rows": [1, 8], "columns": [8, 1], "reduction": [1, 1]}
    plans = Candidates(
        splits={name: np.array(parts) for name, parts in splits.items()},
        serial={"rows": 1},
        method="amp_1x1_swapped",
        grain=8,
        partials="float32",
    )
    (stepped,) = in_fewest_steps(IN_STEPS, plans, SMALL, LIMIT_BYTES, FIRST)
    # The whole right operand never fits; split into columns it does, with some of the rows.
    few, most = (int(steps) for steps in stepped.serial["rows"])
    assert most == 512 // 8
    plan = MatMulPlan(rows=few, columns=8, serial_rows=few, grain=8)
    halves = MatMulPlan(rows=few // 2, columns=8, serial_rows=few // 2, grain=8)
    assert fits(plan)
    assert not fits(halves)


def test_depthwise_convolutions_avoid_the_amp_units():
    shape = image_conv(groups=32, in_channels=1, out_channels=1, dtype="float16")
    assert plan_conv(shape, BOW).method in ("slic", "vertical_mac")


def test_a_few_input_channels_are_expanded():
    shape = image_conv(in_channels=12, dtype="float16")
    assert plan_conv(shape, BOW).method == "amp_expanded"


def test_the_first_release_gives_up_cycles_for_memory():
    shape = MatMulShape(m=1024, k=1024, n=1024)
    now, then = plan_matmul(shape, BOW), plan_matmul(shape, BOW, release=FIRST)
    assert needed_bytes(shape, then) < needed_bytes(shape, now)
    least, most = (cycles(shape, plan, release=FIRST) for plan in (now, then))
    assert least < most <= 1.2 * least


def test_the_first_release_ranks_plans_as_if_no_operand_arrived():
    shape = MatMulShape(m=64, k=768, n=768, dtype="float16")
    blind = dataclasses.replace(FIRST, cycle_backoff=0.0)
    seeing = dataclasses.replace(blind, arrivals=True)
    then, now = (plan_matmul(shape, BOW, release=release) for release in (blind, seeing))
    assert cycles(shape, then, release=blind) < cycles(shape, now, release=blind)
    assert cycles(shape, now, release=seeing) < cycles(shape, then, release=seeing)


def test_releases_know_some_methods():
    with pytest.raises(ValueError, match=r"methods must be some of amp_1x1, .*: \['fft'\]"):
        Release(name="other", methods=frozenset({"fft"}))
    with pytest.raises(ValueError, match=r"cycle_backoff must not be negative\. Received: -0\.1"):
        Release(name="other", cycle_backoff=-0.1)


@pytest.mark.parametrize("field", ["serial_roles", "even"])
def test_releases_take_steps_of_extents_by_their_role(field):
    with pytest.raises(
        ValueError,
        match=rf"Release.{field} must be some of output, reduction, streamed\. Received: \['rows'",
    ):
        Release(name="other", **{field: frozenset({"rows"})})


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(
    ("plan", "shape"),
    [
        (plan_conv, image_conv(dtype="float16")),
        (plan_conv, image_conv(pass_="filter_gradient")),
        (plan_matmul, MatMulShape(m=2048, k=2048, n=2048, dtype="float16")),
    ],
)
def test_a_plan_takes_milliseconds(plan, shape):
    def seconds():
        plan.cache_clear()
        begin = time.process_time()
        plan(shape, BOW)
        return time.process_time() - begin

    assert min(seconds() for _ in range(5)) < 0.1


def test_the_first_release_takes_output_channels_alone_in_steps():
    machine = target("gc2", 64)
    shape = image_conv(batch=32, in_channels=64, out_channels=60)
    now, then = plan_conv(shape, machine), plan_conv(shape, machine, release=FIRST)
    assert now.serial_batch > 1
    assert then.steps == then.serial_out_channels > 1
    assert 60 % then.serial_out_channels == 0


def test_the_first_release_steps_over_what_waits_in_the_units():
    # Of 1,009 rows, a prime, no steps are even: operands are swapped.
    machine = target("gc2", 64)
    rows = plan_matmul(MatMulShape(m=1000, k=1000, n=1000), machine, release=FIRST)
    columns = plan_matmul(MatMulShape(m=1009, k=1000, n=1000), machine, release=FIRST)
    assert (rows.method, rows.steps) == ("amp_1x1_swapped", rows.serial_rows)
    assert (columns.method, columns.steps) == ("amp_1x1", columns.serial_columns)
    assert 1000 % rows.steps == 1000 % columns.steps == 0


def test_what_was_measured_first_needs_steps():
    without = dataclasses.replace(FIRST, serial_roles=frozenset())
    shape = MatMulShape(m=1600, k=1600, n=1600)
    with pytest.raises(PlanDoesNotFit):
        plan_matmul(shape, target("gc2"), release=without)
    assert plan_matmul(shape, target("gc2"), release=FIRST).steps > 1


@pytest.mark.parametrize("pass_", CONV_PASSES)
def test_no_conv_plan_is_below_the_bound_of_its_method(pass_):
    shape = image_conv(pass_=pass_, strides=(2, 2), out_rows=15, out_columns=15)
    for method in methods_for(shape):
        bound = least_cycles_by(method, shape, "float32", BOW)
        for plan in (ConvPlan(method=method), ConvPlan(batch=2, field_rows=8, method=method)):
            assert 0 < bound <= cycles(shape, plan)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_no_matmul_plan_is_below_the_bound_of_its_method(dtype):
    shape = MatMulShape(m=512, k=256, n=320, dtype=dtype)
    for method in methods_for(shape):
        bound = least_cycles_by(method, shape, "float32", BOW)
        for rows, reduction in itertools.product((1, 8, 32), (1, 4, 16)):
            plan = MatMulPlan(rows=rows, columns=2, reduction=reduction, grain=16, method=method)
            assert 0 < bound <= cycles(shape, plan)


def without(shape, *methods):
    """Returns the plan of a planner that lacks some methods."""
    known = frozenset(METHODS) - set(methods)
    return plan_conv(shape, BOW, partials="float16", release=Release(name="without", methods=known))


def test_a_first_layer_has_several_rows_of_its_filter_in_a_pass():
    images = {"batch": 8, "in_rows": 112, "in_columns": 112, "in_channels": 4, "dtype": "float16"}
    filters = {"kernel_rows": 7, "kernel_columns": 7, "strides": (2, 2), "padding": (2, 3, 2, 3)}
    shape = image_conv(**images, **filters, out_rows=56, out_columns=56, out_channels=64)
    by_rows = ("amp_nx1_4_rows", "amp_nx1_2_rows")
    fastest, expanded = plan_conv(shape, BOW, partials="float16"), without(shape, *by_rows)
    assert fastest.method == "amp_nx1_4_rows"
    assert expanded.method == "amp_nx1_expanded"
    plain = without(shape, *by_rows, "amp_nx1_expanded")
    assert cycles(shape, fastest) < 0.9 * cycles(shape, expanded)
    assert cycles(shape, expanded) < 0.9 * cycles(shape, plain)


@pytest.mark.parametrize(
    ("in_channels", "kernel", "dtype", "rows"),
    [
        (3, 7, "float16", {4}),
        # Four rows would take as many passes: one.
        (4, 2, "float16", {2}),
        (8, 3, "float16", {2}),
        (24, 3, "float16", set()),
        (16, 7, "float16", set()),
        (2, 3, "float32", {4}),
        (8, 3, "float32", set()),
        (4, 1, "float16", set()),
    ],
)
def test_passes_hold_several_rows_of_a_filter_where_that_saves_passes(
    in_channels, kernel, dtype, rows
):
    shape = image_conv(
        in_channels=in_channels, kernel_rows=kernel, kernel_columns=kernel, dtype=dtype,
        out_rows=33 - kernel, out_columns=33 - kernel,
    )  # fmt: skip
    assert {METHODS[method].filter_rows for method in methods_for(shape)} - {1} == rows
    gradient = dataclasses.replace(shape, pass_="filter_gradient")
    assert {METHODS[method].filter_rows for method in methods_for(gradient)} == {1}
