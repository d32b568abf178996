"""Gather and scatter: tables in parts of rows and columns."""

import pytest

from ipu_tf.compiler.lowering import preferred_placement
from ipu_tf.compiler.lowering.rearrangement.table_plan import plan_table
from ipu_tf.machine.target import target
from tests.compiler.lowering.programs import ADD, run

ROWS = (
    "t = f32[{rows},{columns}] parameter(0)\ni = s32[{lookups},1] parameter(1)\n"
    "u = f32[{lookups},{columns}] parameter(2)\n"
    "g = f32[{lookups},{columns}] gather(t, i), gather_dimension_numbers={{offset_dims={{1}} "
    "collapsed_slice_dims={{0}} start_index_map={{0}} index_vector_dim=1}}, "
    "gather_slice_sizes={{1,{columns}}}\n"
    "s = f32[{rows},{columns}] scatter(t, i, u), calls={{add}}, scatter_dimension_numbers={{"
    "update_window_dims={{1}} inserted_window_dims={{0}} scatter_dims_to_operand_dims={{0}} "
    "index_vector_dim=1}}"
)


def rows(*, rows=100, columns=64, lookups=6, **keywords):
    text = ROWS.format(rows=rows, columns=columns, lookups=lookups)
    return run(text, before=ADD, **keywords)


def test_wide_rows_are_split_by_columns():
    plan = plan_table(rows=100, columns=1024, lookups=64, dtype="f32", target=target("bow", 64))
    assert (plan.row_parts, plan.column_parts) == (1, 64)


def test_a_table_that_does_not_fit_by_columns_is_split_by_rows():
    plan = plan_table(rows=1 << 20, columns=4, lookups=64, dtype="f32", target=target("bow", 64))
    assert plan.row_parts > 1
    assert (1 << 20) // plan.row_parts * 4 * 4 // plan.column_parts < target("bow").tile_bytes


def test_a_table_in_its_place_is_not_moved():
    elsewhere = rows()
    wish = preferred_placement(elsewhere.context.instructions["g"], 0, elsewhere.context)
    assert preferred_placement(elsewhere.context.instructions["g"], 1, elsewhere.context) is None
    in_place = rows(placed={"t": (wish,)})
    assert elsewhere.exchange_bytes("g") - in_place.exchange_bytes("g") == 100 * 64 * 4
    assert in_place.placements["s"][0] == wish
    assert in_place.lowered["s"].in_place == 0
    assert in_place.lowered["s"].flops == 6 * 64


def test_gather_and_its_gradient_want_the_table_in_the_same_place():
    program = rows()
    gather, scatter = (
        preferred_placement(program.context.instructions[name], 0, program.context) for name in "gs"
    )
    assert gather.layout == scatter.layout


@pytest.mark.parametrize("name", ["g", "s"])
def test_cost_grows_with_lookups(name):
    cycles = [rows(lookups=lookups).cycles(name) for lookups in (1, 6, 60, 600)]
    assert cycles == sorted(set(cycles))


def test_parts_of_rows_collect_what_they_found():
    program = rows(rows=1 << 20, columns=1, lookups=8, tiles=64)
    names = [step.name for step in program.lowered["g"].supersteps]
    assert names == ["look up", "collect rows"]
    assert program.lowered["g"].scratch


def test_a_scatter_into_zeros_fills_them():
    text = ROWS.format(rows=100, columns=64, lookups=6).replace(
        "t = f32[100,64] parameter(0)",
        "z = f32[] parameter(0)\nt = f32[100,64] broadcast(z), dimensions={}",
    )
    program = run(text, before=ADD)
    assert program.lowered["s"].supersteps[0].name == "fill"
