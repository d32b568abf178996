"""Plans rank as lowering charges them: both costs of 500 products and convolutions."""

import dataclasses
import random
from statistics import median

import pytest

from ipu_tf.compiler.hlo import parse
from ipu_tf.compiler.lowering import lower, preferred_placement, spread
from ipu_tf.compiler.lowering.contractions.contraction_plan import plan_for
from ipu_tf.machine.target import target
from ipu_tf.planner.arrivals import ranked_cycles
from ipu_tf.planner.candidates import Candidates
from ipu_tf.planner.plan_blocks import scratch_bytes
from ipu_tf.planner.plan_cost import plan_cost
from tests.compiler.lowering.programs import context_of

BOW = target("bow")
COUNTS = (pytest.param(30, id="some"), pytest.param(500, id="many", marks=pytest.mark.slow))
PASSES = ("product", "forward", "input_gradient", "filter_gradient")
SIZES = (16, 33, 64, 100, 128, 192, 256, 384, 512, 768, 1000, 1024, 1536, 2048, 3072)


def product(draw):
    batch = draw.choice((1, 1, 1, 12, 48))
    most = len(SIZES) if batch == 1 else 7
    m, k, n = (draw.choice(SIZES[:most]) for _ in range(3))
    return (
        f"x = f16[{batch},{m},{k}] parameter(0)\ny = f16[{batch},{k},{n}] parameter(1)\n"
        f"ROOT r = f16[{batch},{m},{n}] dot(x, y), dot_dimension_numbers={{lhs_contracting={{2}} "
        'rhs_contracting={1} lhs_batch={0} rhs_batch={0}}, op_name="op"'
    )


def convolution(draw, pass_):
    """A convolution or gradient of a square image, padded so that outputs cover it."""
    batch, size, stride = draw.choice((1, 4, 8)), draw.choice((7, 14, 28, 56)), draw.choice((1, 2))
    inputs, outputs = (draw.choice((16, 24, 64, 96, 128, 256, 512)) for _ in range(2))
    kernel = draw.choice((1, 3, 5)) if stride == 1 else 3
    out, low = -(-size // stride), kernel // 2
    span = (out - 1) * stride + 1
    image = f"f16[{batch},{size},{size},{inputs}]"
    filters, result = (
        f"f16[{kernel},{kernel},{inputs},{outputs}]",
        f"f16[{batch},{out},{out},{outputs}]",
    )
    types, window, labels, extra = {
        "forward": (
            (image, filters, result),
            (kernel, low, kernel - 1 + span - size - low, f" stride={stride}x{stride}"),
            "b01f_01io->b01f",
            "",
        ),
        "input_gradient": (
            (result, filters, image),
            (kernel, kernel - 1 - low, size + low - span, f" lhs_dilate={stride}x{stride}"),
            "b01f_01oi->b01f",
            "",
        ),
        "filter_gradient": (
            (image, result, filters),
            (out, low, kernel - 1 + span - size - low, f" rhs_dilate={stride}x{stride}"),
            "f01b_i01o->01bf",
            ', op_type="Conv2DBackpropFilter"',
        ),
    }[pass_]
    across, before, after, strides = window
    pad = f"{before}_{after}"
    return (
        f"x = {types[0]} parameter(0)\ny = {types[1]} parameter(1)\n"
        f"ROOT r = {types[2]} convolution(x, y), window={{size={across}x{across} "
        f"pad={pad}x{pad}{strides}}}, convolution_dimension_numbers={labels}, "
        f'op_name="op"{extra}'
    )


def programs(count):
    """The instruction, the context and the placements of operands of every op."""
    draw = random.Random(7)
    for number in range(count):
        pass_ = PASSES[number % len(PASSES)]
        text = product(draw) if pass_ == "product" else convolution(draw, pass_)
        context = context_of(parse(f"ENTRY main {{\n{text}\n}}\n"), tiles=BOW.tiles)
        made = context.instructions["r"]
        operands = [spread(context.instructions[name].type, context) for name in made.operands]
        if pass_ == "forward":  # The variable lies as its plan wants it.
            operands[1] = None
        yield made, context, operands


def lowered_cycles(made, context, operands, shape, plan):
    context = dataclasses.replace(context, plans={"op": (shape, plan)})
    placed = [
        preferred_placement(made, index, context) if operand is None else operand
        for index, operand in enumerate(operands)
    ]
    return sum(step.total_cycles for step in lower(made, placed, context).supersteps)


def neighbours(shape, plan):
    """Plans with twice as many parts of one extent, for half as many of another."""
    for name, extent in shape.extents.items():
        for other in shape.extents:
            if plan.serial.get(name, 1) * plan.serial.get(other, 1) > 1 or name == other:
                continue
            fewer = max(1, plan.splits[other] // 2)
            units = -(-extent // (plan.grain if name == shape.grained_split else 1))
            more = dataclasses.replace(plan, **{name: 2 * plan.splits[name], other: fewer})
            fits = scratch_bytes(shape, Candidates.of(more), BOW) <= 0.6 * BOW.tile_bytes
            if more.splits[name] <= units and more.tiles <= BOW.tiles and fits:
                yield more


def ranked(shape, plan):
    return int(ranked_cycles(shape, Candidates.of(plan), BOW))


@pytest.mark.parametrize("count", COUNTS)
def test_plans_rank_as_lowering_charges_them(count):
    off, blind, lost = [], [], []
    for made, context, operands in programs(count):
        shape, plan = plan_for(made, context)
        charged = lowered_cycles(made, context, operands, shape, plan)
        off.append(abs(ranked(shape, plan) / charged - 1))
        blind.append(abs(int(plan_cost(shape, plan, BOW)) / charged - 1))
        others = sorted(neighbours(shape, plan), key=lambda other: ranked(shape, other))[:3]
        cycles = [lowered_cycles(made, context, operands, shape, other) for other in others]
        lost.append(charged / min([charged, *cycles]) - 1)
    assert median(off) < 0.005 < 0.03 < median(blind)
    assert sorted(off)[int(0.9 * count)] < 0.1
    assert sum(each < 0.01 for each in lost) > 0.75 * count
