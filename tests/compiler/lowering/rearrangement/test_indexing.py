"""Gather and scatter: tables in parts of rows and columns."""

import pytest

from ipu_tf.compiler.lowering import preferred_placement
from ipu_tf.compiler.lowering.rearrangement.table_access import table_access
from ipu_tf.compiler.lowering.rearrangement.table_cost import lookup_stages, stage_cycles
from ipu_tf.compiler.lowering.rearrangement.table_plan import TableUses, plan_table
from ipu_tf.compiler.lowering.rearrangement.table_shape import TableShape
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


GRAPH = {"rows": 576, "columns": 64, "lookups": 1216, "tiles": 1472}
"""Messages between the atoms of 32 molecules of QM9."""


@pytest.mark.parametrize("name", ["g", "s"])
def test_message_passing_keeps_the_tiles_busy(name):
    steps = rows(**GRAPH).lowered[name].supersteps
    busy, available = (
        sum(step.busy_tile_cycles for step in steps),
        sum(step.compute_cycles for step in steps) * GRAPH["tiles"],
    )
    assert busy > 0.9 * available


def test_a_sum_of_single_numbers_lies_on_no_single_tile():
    lowered = rows(rows=100, columns=1, lookups=140_000, tiles=1472).lowered["s"]
    assert all(part.tile_bytes < 2048 for part in (*lowered.scratch, *lowered.exchange_buffers))
    assert lowered.exchange_code_bytes < 2048
    assert max(step.compute_cycles for step in lowered.supersteps) < 5000


def test_a_plan_is_charged_as_it_was_chosen():
    wish = preferred_placement(*_table_of(rows(**GRAPH)))
    program = rows(placed={"t": (wish,)}, **GRAPH)
    access = table_access(program.context.instructions["g"], program.context)
    planned = stage_cycles(
        lookup_stages(access.shape, access.plan, program.context.target), program.context.target
    )
    assert program.cycles("g") == planned


def _table_of(program):
    return program.context.instructions["g"], 0, program.context


def test_looked_up_rows_are_blocks():
    program = rows(**GRAPH)
    (found,) = program.placements["g"]
    access = table_access(program.context.instructions["g"], program.context)
    assert found.blocks == access.plan.rows_layout(access.shape)


def test_rows_that_were_looked_up_alike_are_added_without_an_exchange_of_their_own():
    text = ROWS.format(**GRAPH).replace("scatter(t, i, u)", "scatter(t, i, g)")
    program = run(text, before=ADD, tiles=1472)
    update = next(s for s in program.lowered["s"].supersteps if s.name == "update rows")
    indices = program.placements["i"][0]
    assert update.exchange_bytes <= 1472 * indices.bytes


def test_columns_of_a_table_have_a_layout_of_a_name_only():
    text = (
        "t = f32[64,100] parameter(0)\ni = s32[6,1] parameter(1)\n"
        "g = f32[64,6] gather(t, i), gather_dimension_numbers={offset_dims={0} "
        "collapsed_slice_dims={1} start_index_map={1} index_vector_dim=1}, "
        "gather_slice_sizes={64,1}"
    )
    program = run(text)
    assert program.placements["g"][0].blocks is None
    assert program.cycles("g") > 0


def test_a_gather_without_an_update_is_planned_for_itself():
    gather, scatter = ROWS.format(**GRAPH).rsplit("\n", 1)
    alone = run(gather, tiles=1472)
    both = run(gather + "\n" + scatter, before=ADD, tiles=1472)
    uses = [
        table_access(program.context.instructions["g"], program.context).plan
        for program in (alone, both)
    ]
    shape = TableShape(rows=576, columns=64, lookups=1216, dtype="f32")
    assert uses == [
        plan_table(shape, TableUses(), alone.context.target),
        plan_table(shape, TableUses(updates=True), alone.context.target),
    ]
