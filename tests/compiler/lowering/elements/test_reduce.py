"""Reductions: on tiles first, then across them, in as many stages as pay."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipu_tf.compiler.lowering.elements.reduction_plan import plan_stages
from ipu_tf.machine.target import target
from ipu_tf.tile_program.layouts.placement import Placement
from tests.compiler.lowering.programs import ADD, run
from tests.grids import examples

REDUCE = "x = f32[{dims}] parameter(0)\nz = f32[] constant(0)\n"


def reduced(dims, result, dimensions, **keywords):
    return run(
        REDUCE.format(dims=dims)
        + f"r = f32[{result}] reduce(x, z), calls={{add}}, dimensions={{{dimensions}}}",
        before=ADD,
        **keywords,
    )


def names(program):
    return [step.name for step in program.lowered["r"].supersteps]


def test_rows_stay_on_their_tiles():
    program = reduced("64,32", "64", "1")
    assert names(program) == ["reduce on tile"]
    assert program.exchange_bytes("r") == 0
    assert program.placements["r"][0].tiles == 8


def test_columns_are_joined():
    program = reduced("64,32", "32", "0")
    assert names(program) == ["reduce on tile", "reduce partials"]
    # Each of 8 tiles has a partial result of each of 32 columns.
    assert program.exchange_bytes("r") == 8 * 32 * 4


def test_everything_ends_on_one_tile():
    program = reduced("64,32", "", "0,1")
    assert program.placements["r"][0].tiles == 1
    assert program.exchange_bytes("r") == 8 * 4
    assert program.lowered["r"].flops == 64 * 32


def test_many_partials_are_joined_in_two_stages():
    stages = plan_stages(
        partials=1024, outputs=1, dtype="f32", operands=1, sent_outputs=1, target=target("bow")
    )
    assert len(stages) == 2
    assert stages[0].tiles > 1 == stages[1].tiles
    assert np.prod([stage.depth for stage in stages]) >= 1024


def test_few_partials_are_joined_in_one_stage():
    few = plan_stages(
        partials=4, outputs=8, dtype="f32", operands=1, sent_outputs=8, target=target("bow")
    )
    assert [(stage.tiles, stage.outputs, stage.depth) for stage in few] == [(2, 4, 4)]


def test_no_partials_no_stages():
    assert not plan_stages(
        partials=1, outputs=8, dtype="f32", operands=1, sent_outputs=8, target=target("bow")
    )


def test_a_badly_spread_operand_is_spread_first_where_that_pays():
    def lowered(dtype):
        return run(
            f"x = {dtype}[512,128] parameter(0)\nz = {dtype}[] constant(0)\n"
            f"r = {dtype}[512] reduce(x, z), calls={{add}}, dimensions={{1}}",
            before=ADD,
            placed={"x": (Placement(elements=1 << 16, element_bytes=4, tiles=1),)},
        )

    # Integers are added one by one, more slowly than they can be sent; floats are not.
    assert lowered("s32").placements["r"][0].tiles == 8
    assert lowered("s32").exchange_bytes("r") == 4 << 16
    assert lowered("f32").placements["r"][0].tiles == 1
    assert lowered("f32").exchange_bytes("r") == 0


@pytest.mark.parametrize("dimensions", ["0", "1", "0,1"])
@examples(15)
@given(rows=st.integers(2, 200), more=st.integers(0, 200))
def test_cost_grows_with_size(dimensions, rows, more):
    def cycles(count):
        # Whole vectors in every row, so that pieces do not get luckier with size.
        result = {"0": "64", "1": f"{count}", "0,1": ""}[dimensions]
        placed = Placement(elements=count * 64, element_bytes=4, tiles=1)
        return reduced(f"{count},64", result, dimensions, tiles=1, placed={"x": (placed,)}).cycles(
            "r"
        )

    assert cycles(rows) <= cycles(rows + more)
