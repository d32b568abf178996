"""Windows: what tiles hold, what they fetch around it, cumulative sums."""

import pytest

from ipu_tf.tile_program.layouts.placement import Placement
from tests.compiler.lowering.programs import ADD, run

POOL = (
    "x = f32[8,8,8,4] parameter(0)\nz = f32[] constant(0)\n"
    "r = f32[{out}] reduce-window(x, z), calls={{add}}, window={{size={size} stride={stride}{pad}}}"
)


def pooled(out, size, stride, pad="", **keywords):
    text = POOL.format(out=out, size=size, stride=stride, pad=pad)
    return run(text, before=ADD, **keywords)


def test_windows_within_a_tile_fetch_nothing():
    # Eight images on eight tiles.
    program = pooled("8,4,4,4", "1x2x2x1", "1x2x2x1")
    assert program.exchange_bytes("r") == 0
    assert program.lowered["r"].flops == 8 * 4 * 4 * 4 * 3
    assert program.placements["r"][0].tiles == 8


def test_windows_over_the_edge_fetch_a_halo():
    # A tile holds four rows of an image; the windows of its rows reach one row further.
    program = pooled("8,8,8,4", "1x3x3x1", "1x1x1x1", pad=" pad=0_0x1_1x1_1x0_0", tiles=16)
    target_rows = 4 + 2
    held_rows = 4
    assert program.exchange_bytes("r") == 16 * (target_rows - held_rows) * 8 * 4 * 4


def test_another_layout_is_fetched_in_full():
    placed = {"x": (Placement(elements=2048, element_bytes=4, tiles=8, layout="conv"),)}
    program = pooled("8,4,4,4", "1x2x2x1", "1x2x2x1", placed=placed)
    assert program.exchange_bytes("r") == 2048 * 4


def test_larger_windows_cost_more():
    small = pooled("8,4,4,4", "1x2x2x1", "1x2x2x1")
    large = pooled("8,2,2,4", "1x4x4x1", "1x4x4x1")
    assert large.lowered["r"].supersteps[0].compute_cycles > 0
    assert small.cycles("r") != large.cycles("r")


@pytest.mark.parametrize("pad", ["0_0x63_0", "0_0x0_63"])
def test_a_cumulative_sum_is_a_scan(pad):
    program = run(
        "x = f32[16,64] parameter(0)\nz = f32[] constant(0)\n"
        f"r = f32[16,64] reduce-window(x, z), calls={{add}}, window={{size=1x64 pad={pad}}}",
        before=ADD,
    )
    assert [step.name for step in program.lowered["r"].supersteps] == ["scan"]
    assert program.lowered["r"].flops == 16 * 64
    wide = run(
        "x = f32[16,64] parameter(0)\nz = f32[] constant(0)\n"
        "r = f32[16,63] reduce-window(x, z), calls={add}, window={size=1x64 pad=0_0x31_31}",
        before=ADD,
    )
    assert [step.name for step in wide.lowered["r"].supersteps] == ["reduce windows"]


def test_the_gradient_of_pooling_lies_like_its_input():
    program = run(
        "x = f32[8,8,8,4] parameter(0)\ns = f32[8,4,4,4] parameter(1)\nz = f32[] constant(0)\n"
        "r = f32[8,8,8,4] select-and-scatter(x, s, z), calls={add}, "
        "window={size=1x2x2x1 stride=1x2x2x1}",
        before=ADD,
    )
    assert program.placements["r"] == program.placements["x"]
    assert program.exchange_bytes("r") == 0
