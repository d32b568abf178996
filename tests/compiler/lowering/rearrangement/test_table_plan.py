"""Plans of tables: every element on one tile, within memory, costs that grow with the work."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipu_tf.compiler.lowering.rearrangement.table_cost import (
    lookup_stages,
    stage_cycles,
    update_stages,
)
from ipu_tf.compiler.lowering.rearrangement.table_plan import TableUses, plan_cycles, plan_table
from ipu_tf.compiler.lowering.rearrangement.table_shape import (
    TableShape,
    TableSplit,
    part_of,
    temporary_bytes,
)
from ipu_tf.machine.target import target
from ipu_tf.tile_program.layouts.layout import tile_counts, tile_offsets

BOW = target("bow")
SMALL = target("bow", 16)
GATHERS = TableUses()
SCATTERS = TableUses(looks_up=False, updates=True)
BOTH = TableUses(updates=True)

USES = {"gathers": GATHERS, "scatters": SCATTERS, "both": BOTH}


def table(rows, columns, lookups, dtype="f32"):
    return TableShape(rows=rows, columns=columns, lookups=lookups, dtype=dtype)


shapes = st.builds(
    table,
    st.integers(1, 300),
    st.integers(1, 70),
    st.integers(1, 300),
    st.sampled_from(["f32", "f16", "u8"]),
)


@given(shapes, st.sampled_from(list(USES)))
def test_every_element_lies_on_one_tile_of_the_plan(shape, uses):
    plan = plan_table(shape, USES[uses], SMALL)
    assert plan.tiles <= SMALL.tiles
    part, size = part_of(shape, plan), shape.element_bytes
    for layout, extents, most in (
        (plan.table_layout(shape), (shape.rows, shape.columns), part.table_bytes // size),
        (plan.rows_layout(shape), (shape.lookups, shape.columns), part.answers * part.columns),
    ):
        tiles = tile_offsets(layout)
        assert len(tiles) == np.prod(extents)
        assert 0 <= tiles.min() <= tiles.max() < plan.tiles
        assert np.bincount(tiles).max() <= most
        assert tile_counts(layout).sum() == len(tiles)


def reference_look_up(values, indices, plan, shape):
    """Looks up rows as the tiles of a plan do, one after the other."""
    rows, columns, lookups = (
        np.array_split(np.arange(extent), parts)
        for extent, parts in (
            (shape.rows, plan.row_parts),
            (shape.columns, plan.column_parts),
            (shape.lookups, plan.lookup_parts),
        )
    )
    found = np.full((shape.lookups, shape.columns), np.nan)
    for group, held in itertools.product(lookups, columns):
        answers = np.zeros((len(rows), len(group), len(held)))
        for number, part in enumerate(rows):
            mine = np.isin(indices[group], part)
            answers[number, mine] = values[np.ix_(indices[group][mine], held)]
        owner = [next(n for n, part in enumerate(rows) if i in part) for i in indices[group]]
        found[np.ix_(group, held)] = answers[owner, np.arange(len(group))]
    return found


def reference_update(values, indices, updates, plan, shape):
    """Adds rows as the tiles of a plan do: groups apart, then their sums."""
    rows = np.array_split(np.arange(shape.rows), plan.row_parts)
    groups = np.array_split(np.arange(shape.lookups), plan.lookup_parts)
    partials = np.zeros((len(groups), *values.shape))
    for number, group in enumerate(groups):
        for part in rows:
            mine = group[np.isin(indices[group], part)]
            np.add.at(partials[number], indices[mine], updates[mine])
    return values + partials.sum(axis=0)


@given(
    st.builds(table, st.integers(1, 30), st.integers(1, 9), st.integers(1, 40), st.just("f32")),
    st.sampled_from(list(USES)),
    st.randoms(use_true_random=False),
)
def test_tiles_of_a_plan_find_and_add_what_one_tile_would(shape, uses, random):
    plan = plan_table(shape, USES[uses], SMALL)
    indices = np.array([random.randrange(shape.rows) for _ in range(shape.lookups)])
    values = np.arange(shape.rows * shape.columns, dtype=float).reshape(shape.rows, -1)
    assert np.array_equal(reference_look_up(values, indices, plan, shape), values[indices])
    updates = np.arange(shape.lookups * shape.columns, dtype=float).reshape(shape.lookups, -1)
    expected = values.copy()
    np.add.at(expected, indices, updates)
    assert np.array_equal(reference_update(values, indices, updates, plan, shape), expected)


SIZES = [1, 7, 64, 1000, 30000]


@pytest.mark.fast_cells(2)
@pytest.mark.parametrize("uses", USES.values(), ids=USES)
@pytest.mark.parametrize("chip", ["gc2", "bow"])
def test_no_tile_is_over_its_memory(uses, chip):
    machine = target(chip)
    for rows, columns, lookups in itertools.product(SIZES, [1, 64, 1000], SIZES):
        shape = table(rows, columns, lookups)
        whole = (rows + 2 * lookups) * columns * shape.element_bytes
        if whole > machine.tiles * machine.tile_bytes / 4:
            continue
        plan = plan_table(shape, uses, machine)
        held = part_of(shape, plan).table_bytes + temporary_bytes(shape, plan)
        assert held <= machine.tile_bytes, (shape, plan)


@given(
    shapes,
    st.integers(1, 8),
    st.integers(1, 8),
    st.integers(1, 8),
    st.sampled_from(["columns", "lookups"]),
)
def test_a_split_costs_no_less_for_more_work(shape, rows, columns, lookups, grown):
    split = TableSplit(row_parts=rows, column_parts=columns, lookup_parts=lookups)
    shape = dataclasses.replace(shape, columns=8 * shape.columns)
    costs = [
        plan_cycles(dataclasses.replace(shape, **{grown: size}), split, BOTH, BOW)
        for size in (getattr(shape, grown), 2 * getattr(shape, grown), 8 * getattr(shape, grown))
    ]
    assert costs == sorted(costs)


@pytest.mark.parametrize("uses", USES.values(), ids=USES)
def test_the_best_split_costs_more_for_much_more_work(uses):
    for rows, few in itertools.product([10, 576, 30000], [1, 64]):
        costs = []
        for size in (1, 64, 4096):
            shape = table(rows, few * size, few * size)
            costs.append(int(plan_cycles(shape, plan_table(shape, uses, BOW), uses, BOW)))
        assert costs == sorted(costs), (rows, few)


def test_no_other_split_is_faster():
    shape = table(20, 8, 50)
    best = plan_cycles(shape, plan_table(shape, BOTH, SMALL), BOTH, SMALL)
    for rows, columns, lookups in itertools.product([1, 2, 4, 8, 16], [1, 2, 4], [1, 2, 4, 8, 16]):
        split = TableSplit(row_parts=rows, column_parts=columns, lookup_parts=lookups)
        if split.tiles <= SMALL.tiles:
            assert best <= plan_cycles(shape, split, BOTH, SMALL)


def test_wide_rows_are_split_by_columns():
    plan = plan_table(table(100, 1024, 64), GATHERS, target("bow", 64))
    assert (plan.row_parts, plan.column_parts, plan.lookup_parts) == (1, 64, 1)


def test_a_table_that_does_not_fit_by_columns_is_split_by_rows():
    shape, machine = table(1 << 20, 4, 64), target("bow", 64)
    plan = plan_table(shape, GATHERS, machine)
    assert plan.row_parts > 1
    assert part_of(shape, plan).table_bytes <= machine.tile_bytes / 2


def test_a_table_that_fits_nowhere_takes_the_least_memory():
    shape, machine = table(1 << 24, 4, 64), target("bow", 16)
    plan = plan_table(shape, GATHERS, machine)
    assert plan.tiles == 16


def test_many_look_ups_are_split_into_groups():
    plan = plan_table(table(10, 1, 50000), SCATTERS, BOW)
    assert plan.lookup_parts > BOW.tiles / 2


def test_updates_that_overwrite_are_in_one_group():
    plan = plan_table(table(10, 1, 50000), TableUses(updates=True, in_groups=False), BOW)
    assert plan.lookup_parts == 1


def test_little_work_does_not_leave_a_large_table_on_few_tiles():
    plan = plan_table(table(30000, 64, 1), GATHERS, BOW)
    assert plan.tiles > BOW.tiles / 2


def test_groups_exchange_copies_and_sums():
    shape = table(64, 2, 120)
    split = TableSplit(row_parts=2, column_parts=1, lookup_parts=4)
    # 30 look-ups of a group; 32 rows of 8 bytes in a part; a quarter of those 64 elements.
    look_up, collect = lookup_stages(shape, split, SMALL)
    assert (int(look_up.received_bytes), int(collect.received_bytes)) == (
        32 * 8 + 30 * 4,
        15 * (2 * 8 + 4),
    )
    received = [int(stage.received_bytes) for stage in update_stages(shape, split, SMALL)]
    assert received == [0, 30 * 8 + 30 * 4, 0, 4 * 16 * 4, 0]
    one = TableSplit(row_parts=1, column_parts=1, lookup_parts=1)
    assert [int(s.vertex.cycles) > 0 for s in update_stages(shape, one, SMALL)] == [
        False, True, False, False, False,
    ]  # fmt: skip
    assert stage_cycles(lookup_stages(shape, one, SMALL)[1:], SMALL) == 0


def test_many_groups_sum_in_two_stages():
    split = TableSplit(row_parts=1, column_parts=1, lookup_parts=1000)
    _, _, first, last, _ = update_stages(table(100, 1, 50000), split, BOW)
    assert (int(first.pieces), int(last.pieces)) == (32, 32)
    assert int(last.tiles) == 25  # Four sums on each.
    few = TableSplit(row_parts=1, column_parts=1, lookup_parts=4)
    _, _, first, last, _ = update_stages(table(100, 1, 50000), few, BOW)
    assert (int(first.received_bytes), int(last.pieces)) == (0, 4)
