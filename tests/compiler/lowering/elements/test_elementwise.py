"""Element-wise operations: nothing moves where operands lie alike."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from ipu_tf.tile_program.layouts.layout import Axis, BlockLayout
from ipu_tf.tile_program.layouts.placement import Placement
from tests.compiler.lowering.programs import run
from tests.grids import examples

PAIR = "x = f32[{n}] parameter(0)\ny = f32[{n}] parameter(1)\n"


def lying(elements, **changes):
    return dataclasses.replace(Placement(elements=elements, element_bytes=4, tiles=8), **changes)


def test_aligned_operands_meet_without_exchange():
    program = run(
        PAIR.format(n=1024) + "r = f32[1024] add(x, y)",
        placed={"x": (lying(1024),), "y": (lying(1024),)},
    )
    (step,) = program.lowered["r"].supersteps
    assert (step.exchange_cycles, step.sync_cycles, step.exchange_bytes) == (0, 0, 0)
    assert step.compute_cycles > 0
    assert step.busy_tile_cycles == 8 * step.compute_cycles
    assert program.lowered["r"].exchange_code_bytes == 0
    assert program.lowered["r"].in_place == 0


def test_what_lies_elsewhere_comes_by_exchange():
    program = run(
        PAIR.format(n=1024) + "r = f32[1024] add(x, y)",
        placed={"x": (lying(1024),), "y": (lying(1024, layout="other"),)},
    )
    (step,) = program.lowered["r"].supersteps
    assert step.exchange_bytes == 1024 * 4
    assert step.sync_cycles > 0
    # 128 elements a tile, a word a cycle, after the start of the exchange.
    target = program.context.target
    assert step.exchange_cycles == target.exchange_fixed_cycles + 128
    (buffer,) = program.lowered["r"].exchange_buffers
    assert buffer.tile_bytes == 128 * 4


def test_result_lies_like_the_variable():
    variable, update = lying(64, tiles=2), lying(64, layout="gradient")
    program = run(
        PAIR.format(n=64) + "g = f32[64] negate(y)\nr = f32[64] add(g, x)",
        placed={"x": (variable,), "y": (update,)},
    )
    assert program.placements["g"] == (update,)
    assert program.placements["r"] == (variable,)
    assert program.lowered["r"].in_place == 1


def test_result_lies_like_the_operand_on_most_tiles():
    narrow, wide = lying(64, tiles=2), lying(64, tiles=4)
    program = run(
        PAIR.format(n=64) + "a = f32[64] negate(x)\nb = f32[64] negate(y)\nr = f32[64] add(a, b)",
        placed={"x": (narrow,), "y": (wide,)},
    )
    assert program.placements["r"] == (wide,)


def test_a_broadcast_sends_what_is_distinct():
    program = run(
        """
        x = f32[64,32] parameter(0)
        b = f32[32] parameter(1)
        s = f32[] parameter(2)
        w = f32[64,32] broadcast(b), dimensions={1}
        v = f32[64,32] broadcast(s), dimensions={}
        r = f32[64,32] add(x, w)
        q = f32[64,32] add(x, v)
        """
    )
    assert program.lowered["w"].view_of == 0
    # Every tile has whole rows, so it needs all 32 elements of the bias, or the one scalar.
    assert program.exchange_bytes("r") == 8 * 32 * 4
    assert program.exchange_bytes("q") == 8 * 4


def test_a_column_that_is_broadcast_sends_a_share():
    program = run(
        """
        x = f32[64,32] parameter(0)
        b = f32[64] parameter(1)
        w = f32[64,32] broadcast(b), dimensions={0}
        r = f32[64,32] add(x, w)
        """
    )
    assert program.exchange_bytes("r") == 64 * 4


CHAIN = """chain {{
a = f32[{n}] parameter(0)
b = f32[{n}] parameter(1)
c = f32[{n}] add(a, b)
d = f32[{n}] multiply(c, b)
ROOT e = f32[{n}] add(d, a)
}}
"""


def test_a_fusion_is_cheaper_than_its_parts():
    fused = run(
        PAIR.format(n=4096) + "r = f32[4096] fusion(x, y), calls={chain}",
        before=CHAIN.format(n=4096),
    )
    apart = run(
        PAIR.format(n=4096)
        + "c = f32[4096] add(x, y)\nd = f32[4096] multiply(c, y)\ne = f32[4096] add(d, x)"
    )
    assert fused.cycles("r") < sum(map(apart.cycles, "cde"))
    assert fused.lowered["r"].flops == 3 * 4096


def test_a_fusion_of_views_copies():
    program = run(
        "s = f32[] parameter(0)\nr = f32[64] fusion(s), calls={filled}",
        before="filled {\na = f32[] parameter(0)\n"
        "ROOT b = f32[64] broadcast(a), dimensions={}\n}\n",
    )
    assert program.cycles("r") > 0
    assert program.lowered["r"].flops == 0


def test_a_fusion_may_broadcast_in_two_steps():
    layout = BlockLayout(axes=(Axis(extent=4, parts=2), Axis(extent=16, parts=4)), order=(0, 1))
    matrix = lying(64, tiles=layout.tiles, layout=layout)
    program = run(
        "x = f32[4,16] parameter(0)\ns = f32[] parameter(1)\n"
        "r = f32[4,16] fusion(x, s), calls={scaled}",
        before="scaled {\na = f32[4,16] parameter(0)\nb = f32[] parameter(1)\n"
        "rows = f32[4] broadcast(b), dimensions={}\nhalf = f32[4] negate(rows)\n"
        "all = f32[4,16] broadcast(half), dimensions={0}\n"
        "ROOT c = f32[4,16] multiply(a, all)\n}\n",
        placed={"x": (matrix,)},
    )
    assert program.placements["r"] == (matrix,)
    assert program.exchange_bytes("r") <= 4 * layout.tiles  # at most the scalar, to every tile


def test_comparisons_are_no_flops():
    program = run(PAIR.format(n=64) + "r = pred[64] compare(x, y)\nq = f32[64] power(x, y)")
    assert program.lowered["r"].flops == 0
    assert program.lowered["q"].flops == 64


def test_a_cast_to_the_same_type_is_a_view():
    assert run("x = f32[8] parameter(0)\nr = f32[8] convert(x)").lowered["r"].view_of == 0


@examples(30)
@given(st.integers(1, 5000), st.integers(1, 5000))
def test_cost_grows_with_size(one, other):
    small, large = sorted((one, other))
    cycles = [
        run(PAIR.format(n=n) + f"r = f32[{n}] multiply(x, y)").cycles("r") for n in (small, large)
    ]
    assert cycles[0] <= cycles[1]


def test_nothing_to_do_costs_nothing():
    program = run(PAIR.format(n=0) + "r = f32[0] add(x, y)")
    assert program.cycles("r") == 0
    assert program.lowered["r"].vertex_state == ()
