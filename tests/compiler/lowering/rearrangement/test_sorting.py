"""Sorting and the largest k."""

from tests.compiler.lowering.programs import run


def sorted_rows(rows, row, **keywords):
    return run(
        f"x = f32[{rows},{row}] parameter(0)\nr = f32[{rows},{row}] sort(x), dimensions={{1}}",
        **keywords,
    )


def names(program):
    return {step.name for step in program.lowered["r"].supersteps}


def test_many_rows_are_sorted_tile_by_tile():
    assert names(sorted_rows(64, 16)) == {"sort on tile"}


def test_one_long_row_is_shared():
    assert names(sorted_rows(1, 1 << 14)) == {"sort on tile", "merge shares"}
    assert sorted_rows(1, 1 << 14, tiles=8).cycles("r") < sorted_rows(1, 1 << 14, tiles=1).cycles(
        "r"
    )


def test_values_that_go_along_cost_more():
    pairs = run(
        "x = f32[64,16] parameter(0)\ny = s32[64,16] parameter(1)\n"
        "r = (f32[64,16], s32[64,16]) sort(x, y), dimensions={1}"
    )
    assert pairs.cycles("r") > sorted_rows(64, 16).cycles("r")


def test_the_largest_of_shares_are_joined():
    long = run("x = f32[1,8192] parameter(0)\nr = (f32[1,4], s32[1,4]) topk(x), k=4, largest=true")
    assert names(long) == {"largest on tile", "largest of shares"}
    many = run("x = f32[64,16] parameter(0)\nr = (f32[64,4], s32[64,4]) topk(x), k=4, largest=true")
    assert names(many) == {"largest on tile"}
