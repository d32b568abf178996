"""Which tile computes an element of a superstep's result."""

import itertools

import numpy as np
import pytest

from ipu_tf.machine.superstep import Superstep
from ipu_tf.machine.target import target
from ipu_tf.planner.plan import MatMulPlan, MatMulShape
from ipu_tf.tile_program.element_tiles import tile_of_element
from ipu_tf.tile_program.layouts.layout import view
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.tile_work import BroadcastWork, PlanWork, StageWork

TARGET = target("gc200", tiles_per_ipu=8)


def product(work, shape=(4, 6)):
    step = Superstep(name="multiply", compute_cycles=10, busy_tile_cycles=40, work=work)
    indices = itertools.product(*map(range, shape))
    return np.array([tile_of_element(step, shape, index) for index in indices]).reshape(shape)


def plan_work(first_tile=0, **splits):
    shape = MatMulShape(m=4, k=8, n=6, dtype="float32")
    plan = MatMulPlan(**splits)
    return PlanWork(target=TARGET, shape=shape, plan=plan, first_tile=first_tile)


def test_blocks_of_a_product():
    tiles = product(plan_work(rows=2, columns=2))
    assert tiles[:, [0, 2, 3, 5]].tolist() == [[0, 0, 1, 1]] * 2 + [[2, 2, 3, 3]] * 2


def test_tiles_that_compute_hold_all_elements():
    work = plan_work(first_tile=6, rows=2, columns=2)
    step = Superstep(name="multiply", compute_cycles=10, busy_tile_cycles=40, work=work)
    busy = np.flatnonzero(step.tile_figures.compute_cycles.counts)
    assert set(product(work).ravel()) == set(busy) == {6, 7, 0, 1}


def test_a_sum_over_tiles_is_spread_over_them():
    tiles = product(plan_work(rows=2, reduction=2))
    assert sorted(set(tiles.ravel())) == [0, 1, 2, 3]
    assert set(tiles[:2].ravel()) | {0, 1} == {0, 1}


def test_even_pieces():
    where = Placement(elements=24, element_bytes=4, first_tile=2, tiles=5)
    tiles = product(StageWork(tiles=8, where=where)).ravel()
    assert tiles.tolist() == [2] * 5 + [3] * 5 + [4] * 5 + [5] * 5 + [6] * 4


@pytest.mark.parametrize(
    "work",
    [
        None,
        BroadcastWork(tiles=8),
        StageWork(tiles=8, where=Placement(elements=23, element_bytes=4)),
        StageWork(
            tiles=8,
            where=Placement(elements=24, element_bytes=4, layout=view("named", "transposed")),
        ),
        plan_work(rows=2).__class__(
            target=TARGET, shape=MatMulShape(m=4, k=8, n=5, dtype="float32"), plan=MatMulPlan()
        ),
    ],
)
def test_what_is_not_known(work):
    assert set(product(work).ravel()) == {None}


def test_a_scalar():
    step = Superstep(
        name="add",
        work=StageWork(tiles=8, where=Placement(elements=1, element_bytes=4, first_tile=3)),
    )
    assert tile_of_element(step, (), ()) == 3
