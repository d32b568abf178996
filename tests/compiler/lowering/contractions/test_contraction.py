"""Dots and convolutions: shapes read off HLO, plans, where operands and results lie."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ipu_tf.compiler.hlo import parse
from ipu_tf.compiler.lowering import lower, preferred_placement
from ipu_tf.compiler.lowering.contractions.contraction_plan import plan_for
from ipu_tf.planner.plan import ConvPlan, MatMulPlan, PlanDoesNotFit
from ipu_tf.planner.plan_steps import plan_supersteps
from ipu_tf.planner.shapes import ConvShape, MatMulShape
from tests.compiler.lowering.programs import context_of, run
from tests.grids import examples

DOT = (
    "x = f32[8,64] parameter(0)\nw = f32[64,16] parameter(1)\nr = f32[8,16] dot(x, w), "
    'dot_dimension_numbers={lhs_contracting={1} rhs_contracting={0}}, op_name="dense/MatMul"'
)
CONV = (
    "x = {dtype}[{x}] parameter(0)\nk = {dtype}[{k}] parameter(1)\n"
    "r = {dtype}[{r}] convolution(x, k), window={{{window}}}, "
    "convolution_dimension_numbers={labels}"
)
FORWARD, INPUT, FILTER = "b01f_01io->b01f", "b01f_01oi->b01f", "f01b_i01o->01bf"


def conv(x, k, r, *, window, labels=FORWARD, extra="", dtype="f32"):
    text = CONV.format(x=x, k=k, r=r, window=window, labels=labels, dtype=dtype) + extra
    program = run(text)
    shape, _ = plan_for(program.context.instructions["r"], program.context)
    return shape, program


def test_a_dot_is_a_matmul():
    program = run(DOT)
    made = program.lowered["r"]
    shape, plan = plan_for(program.context.instructions["r"], program.context)
    assert shape == MatMulShape(m=8, k=64, n=16)
    assert made.flops == 2 * 8 * 64 * 16
    assert made.plan == plan
    assert made.code
    assert program.placements["r"][0].tiles <= plan.tiles


def test_results_of_equal_plans_meet_without_an_exchange():
    program = run(DOT, tiles=25)
    (first,), context = program.placements["r"], program.context
    assert first.tiles < 25
    context.balance.add(first.footprint)
    operands = [program.placements[name][0] for name in ("x", "w")]
    again = lower(context.instructions["r"], operands, context).results[0]
    assert again.aligned(first)
    assert context.first_tile(first.tiles) != first.first_tile


def test_a_batched_dot():
    program = run(
        "x = f16[3,5,8,4] parameter(0)\ny = f16[3,5,6,4] parameter(1)\n"
        "r = f16[3,5,8,6] dot(x, y), dot_dimension_numbers={lhs_contracting={3} "
        "rhs_contracting={3} lhs_batch={0,1} rhs_batch={0,1}}"
    )
    shape, _ = plan_for(program.context.instructions["r"], program.context)
    assert shape == MatMulShape(batch=15, m=8, k=4, n=6, dtype="float16")


def test_charges_the_plan_that_the_tile_op_runs():
    executed = MatMulPlan(rows=2, columns=2, grain=8)
    shape = MatMulShape(m=8, k=64, n=16)
    program = run(DOT, plans={"dense/MatMul": (shape, executed)})
    assert program.lowered["r"].plan == executed
    steps = plan_supersteps(shape, executed, program.context.target)
    assert [s.compute_cycles for s in program.lowered["r"].supersteps] == [
        s.compute_cycles for s in steps
    ]


def test_plans_what_another_op_of_the_name_did_not():
    other = (MatMulShape(m=1, k=2, n=3), MatMulPlan(grain=8))
    assert run(DOT, plans={"dense/MatMul": other}).lowered["r"].plan == run(DOT).lowered["r"].plan


def test_plans_one_product_where_a_tile_op_counts_rows_as_a_batch():
    product = run(DOT).lowered["r"]
    shape = MatMulShape(batch=4, m=2, k=64, n=16)
    batched = {"dense/MatMul": (shape, MatMulPlan(batch=4, grain=8))}
    assert run(DOT, plans=batched).lowered["r"].plan == product.plan


def test_operands_in_place_need_not_be_fetched():
    elsewhere = run(DOT)
    instruction = elsewhere.context.instructions["r"]
    wishes = {
        name: (preferred_placement(instruction, index, elsewhere.context),)
        for index, name in enumerate("xw")
    }
    in_place = run(DOT, placed=wishes)
    shape, plan = plan_for(instruction, elsewhere.context)
    assert in_place.lowered["r"].supersteps == plan_supersteps(shape, plan, in_place.context.target)
    assert in_place.cycles("r") < elsewhere.cycles("r")
    assert in_place.lowered["r"].exchange_code_bytes < elsewhere.lowered["r"].exchange_code_bytes


GEOMETRIES = {
    "same": ("4,15,15,8", "3,3,8,16", "4,15,15,16", "size=3x3 pad=1_1x1_1"),
    "strided": ("4,15,15,8", "3,3,8,16", "4,8,8,16", "size=3x3 stride=2x2 pad=1_1x1_1"),
    "valid, rest": ("4,8,8,8", "3,3,8,16", "4,3,3,16", "size=3x3 stride=2x2"),
    "dilated": ("4,15,15,8", "3,3,8,16", "4,11,11,16", "size=3x3 rhs_dilate=2x2"),
}


@pytest.mark.parametrize("case", GEOMETRIES)
def test_forward(case):
    x, k, r, window = GEOMETRIES[case]
    shape, program = conv(x, k, r, window=window)
    batch, rows, columns, channels = map(int, r.split(","))
    assert shape.pass_ == "forward"
    assert (shape.out_rows, shape.out_columns) == (rows, columns)
    assert program.lowered["r"].flops == 2 * batch * rows * columns * channels * 9 * 8


def test_pixels_that_strides_skip_do_not_move():
    windows = "size=1x1 stride=2x2 pad=0_-1x0_-1"
    strided = conv("4,16,16,8", "1,1,8,16", "4,8,8,16", window=windows)[1].lowered["r"]
    dense = conv("4,8,8,8", "1,1,8,16", "4,8,8,16", window="size=1x1")[1].lowered["r"]
    assert strided.plan == dense.plan
    moved = [sum(s.exchange_bytes for s in each.supersteps) for each in (strided, dense)]
    assert 0 < moved[0] <= moved[1]


def test_input_gradient_of_strides():
    shape, program = conv(
        "4,8,8,16", "3,3,8,16", "4,15,15,8",
        window="size=3x3 lhs_dilate=2x2 pad=1_1x1_1", labels=INPUT,
    )  # fmt: skip
    assert shape == ConvShape(
        pass_="input_gradient", batch=4, in_rows=15, in_columns=15, in_channels=8,
        out_channels=16, kernel_rows=3, kernel_columns=3, out_rows=8, out_columns=8,
        strides=(2, 2), padding=(1, 1, 1, 1),
    )  # fmt: skip
    assert program.lowered["r"].flops == 2 * 4 * 8 * 8 * 16 * 9 * 8


def test_filter_gradient_of_strides():
    shape, program = conv(
        "4,15,15,8", "4,8,8,16", "3,3,8,16",
        window="size=8x8 rhs_dilate=2x2 pad=1_1x1_1", labels=FILTER,
        extra=', op_type="Conv2DBackpropFilter"',
    )  # fmt: skip
    assert shape == ConvShape(
        pass_="filter_gradient", batch=4, in_rows=15, in_columns=15, in_channels=8,
        out_channels=16, kernel_rows=3, kernel_columns=3, out_rows=8, out_columns=8,
        strides=(2, 2), padding=(1, 1, 1, 1),
    )  # fmt: skip
    assert program.lowered["r"].flops == 2 * 4 * 8 * 8 * 16 * 9 * 8


def test_filter_gradient_that_crops():
    shape, _ = conv(
        "4,4,4,16", "4,2,2,32", "1,1,16,32",
        window="size=2x2 rhs_dilate=2x2 pad=0_-1x0_-1", labels=FILTER,
        extra=', op_type="Conv2DBackpropFilter"',
    )  # fmt: skip
    assert (shape.kernel_rows, shape.out_rows, shape.strides) == (1, 2, (2, 2))


def test_groups():
    grouped, program = conv(
        "4,8,8,8", "3,3,4,16", "4,8,8,16",
        window="size=3x3 pad=1_1x1_1", extra=", feature_group_count=2",
    )  # fmt: skip
    assert (grouped.groups, grouped.in_channels, grouped.out_channels) == (2, 4, 8)
    assert program.lowered["r"].flops == 2 * 4 * 8 * 8 * 16 * 9 * 4
    depthwise, _ = conv(
        "4,8,8,8", "3,3,1,8", "4,8,8,8",
        window="size=3x3 pad=1_1x1_1", extra=", feature_group_count=8",
    )  # fmt: skip
    assert (depthwise.groups, depthwise.in_channels, depthwise.out_channels) == (8, 1, 1)


def test_filter_gradient_of_groups():
    shape, program = conv(
        "4,8,8,8", "4,8,8,16", "3,3,4,16",
        window="size=8x8 pad=1_1x1_1", labels=FILTER, extra=", batch_group_count=2",
    )  # fmt: skip
    assert shape.pass_ == "filter_gradient"
    assert (shape.groups, shape.batch, shape.in_channels, shape.out_channels) == (2, 4, 4, 8)
    assert program.lowered["r"].flops == 2 * 4 * 8 * 8 * 16 * 9 * 4


def test_one_spatial_dimension():
    shape, program = conv(
        "4,16,8", "3,8,16", "4,16,16", window="size=3 pad=1_1", labels="b0f_0io->b0f"
    )
    assert (shape.in_rows, shape.in_columns, shape.kernel_columns) == (1, 16, 3)
    assert program.lowered["r"].flops == 2 * 4 * 16 * 16 * 3 * 8


THREE = {
    "forward": (
        "2,5,8,8,4", "3,3,3,4,6", "2,5,8,8,6", "size=3x3x3 pad=1_1x1_1x1_1",
        "b012f_012io->b012f", "",
    ),
    "input_gradient": (
        "2,5,8,8,6", "3,3,3,4,6", "2,5,8,8,4", "size=3x3x3 pad=1_1x1_1x1_1",
        "b012f_012oi->b012f", ', op_type="Conv3DBackpropInputV2"',
    ),
    "filter_gradient": (
        "2,5,8,8,4", "2,5,8,8,6", "3,3,3,4,6", "size=5x8x8 pad=1_1x1_1x1_1",
        "f012b_i012o->012bf", ', op_type="Conv3DBackpropFilterV2"',
    ),
}  # fmt: skip


@pytest.mark.parametrize("pass_", THREE)
def test_three_spatial_dimensions(pass_):
    x, k, r, window, labels, extra = THREE[pass_]
    shape, program = conv(x, k, r, window=window, labels=labels, extra=extra)
    assert shape.pass_ == pass_
    assert program.lowered["r"].flops == 2 * (2 * 5 * 8 * 8) * 27 * 4 * 6


def test_plans_are_of_the_kind_of_the_op():
    _, program = conv(*GEOMETRIES["same"][:3], window=GEOMETRIES["same"][3])
    assert isinstance(program.lowered["r"].plan, ConvPlan)


@examples(20)
@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 64))
def test_flops_of_a_dot(m, k, n):
    program = run(
        f"x = f32[{m},{k}] parameter(0)\nw = f32[{k},{n}] parameter(1)\n"
        f"r = f32[{m},{n}] dot(x, w), "
        "dot_dimension_numbers={lhs_contracting={1} rhs_contracting={0}}"
    )
    assert program.lowered["r"].flops == 2 * m * k * n


LARGE = (
    "x = f32[8192,8192] parameter(0)\nw = f32[8192,8192] parameter(1)\n"
    "r = f32[8192,8192] dot(x, w), "
    "dot_dimension_numbers={lhs_contracting={1} rhs_contracting={0}}"
)


def test_what_does_not_fit_is_not_lowered():
    with pytest.raises(PlanDoesNotFit, match="matmul"):
        run(LARGE, tiles=1, chip="gc2")


@pytest.mark.parametrize("text", [LARGE, DOT.replace("f32", "s32")])
def test_what_cannot_be_lowered_wants_nothing(text):
    module = parse("ENTRY main {\n" + text.replace("r = ", "ROOT r = ") + "\n}\n")
    context = context_of(module, tiles=1, chip="gc2")
    assert preferred_placement(context.instructions["r"], 1, context) is None


def test_nobody_else_minds():
    program = run("x = f32[8] parameter(0)\nr = f32[8] negate(x)")
    assert preferred_placement(program.context.instructions["r"], 0, program.context) is None


@st.composite
def forward_axes(draw):
    """Size, taps, stride, dilation and padding of one dimension that has at least one window."""
    size, taps = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    reach = (taps - 1) * dilation + 1
    low, high = draw(st.integers(0, reach - 1)), draw(st.integers(0, reach - 1))
    assume(size + low + high >= reach)
    return size, taps, stride, dilation, low, high


@examples(24)
@given(forward_axes(), st.sampled_from(["forward", "input_gradient", "filter_gradient"]))
def test_all_passes_of_a_convolution_have_its_shape(axis, pass_):
    size, taps, stride, dilation, low, high = axis
    reach = (taps - 1) * dilation + 1
    out = (size + low + high - reach) // stride + 1
    image, kernel, result = f"2,1,{size},3", f"1,{taps},3,5", f"2,1,{out},5"
    if pass_ == "forward":
        operands = (image, kernel, result)
        window = f"size=1x{taps} stride=1x{stride} rhs_dilate=1x{dilation} pad=0_0x{low}_{high}"
        labels = FORWARD
    elif pass_ == "input_gradient":
        operands = (result, kernel, image)
        before = reach - 1 - low
        after = size - 1 - (out - 1) * stride + low
        window = (
            f"size=1x{taps} lhs_dilate=1x{stride} rhs_dilate=1x{dilation} pad=0_0x{before}_{after}"
        )
        labels = INPUT
    else:
        operands = (image, result, kernel)
        after = (out - 1) * stride + reach - size - low
        window = f"size=1x{out} stride=1x{dilation} rhs_dilate=1x{stride} pad=0_0x{low}_{after}"
        labels = FILTER
    op_type = {
        "forward": "Conv2D",
        "input_gradient": "Conv2DBackpropInput",
        "filter_gradient": "Conv2DBackpropFilter",
    }[pass_]
    shape, program = conv(*operands, window=window, labels=labels, extra=f', op_type="{op_type}"')
    assert shape.pass_ == pass_
    assert (shape.kernel_columns, shape.out_columns, shape.batch) == (taps, out, 2)
    assert (shape.strides, shape.dilations) == ((1, stride), (1, dilation))
    assert (shape.in_channels, shape.out_channels) == (3, 5)
    assert shape.padding[2] == low
    assert program.lowered["r"].flops == 2 * 2 * out * taps * 3 * 5
