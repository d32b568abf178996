"""The figures of every tile add up to those of its superstep, for every opcode and network."""

from dataclasses import fields

import numpy as np
import pytest

from ipu_tf.compiler.compile import compile_program
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.machine.target import target
from ipu_tf.planner.plan import MatMulPlan, MatMulShape
from ipu_tf.planner.plan_steps import plan_supersteps
from ipu_tf.tile_program import tile_details
from ipu_tf.tile_program.layouts.layout import Axis
from ipu_tf.tile_program.layouts.layout_form import blocks
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.tile_details import detailed
from ipu_tf.tile_program.tile_work import PlanWork, held_elements, proportional_shares
from tests.compiler import modules
from tests.compiler.lowering.programs import TILES, run
from tests.compiler.lowering.test_opcodes import BEFORE, CASES
from tests.grids import mostly_slow


def check_sums(superstep, tiles):
    found = superstep.tile_figures
    received, sent = found.received_bytes.total, found.sent_bytes.total
    assert found.compute_cycles.total == superstep.busy_tile_cycles
    assert superstep.exchange_bytes == (received + sent if superstep.host_cycles else received)
    assert max(found.compute_cycles.values) <= superstep.compute_cycles
    for runs in (
        found.compute_cycles,
        found.received_bytes,
        found.sent_bytes,
        found.sync_wait_cycles,
    ):
        assert sum(runs.tiles) == tiles
        assert min(runs.values) >= 0
    spent = found.compute_cycles.counts + found.sync_wait_cycles.counts
    assert (spent >= superstep.compute_cycles).all()
    assert (spent <= superstep.compute_cycles + superstep.exchange_cycles).all()


@pytest.mark.parametrize("opcode", CASES)
def test_sums_of_every_opcode(opcode):
    made = run(CASES[opcode], before=BEFORE).lowered["r"]
    assert made.supersteps
    for superstep in made.supersteps:
        check_sums(superstep, TILES)


@pytest.mark.parametrize("name", mostly_slow(modules.NAMES, fast=["mlp"]))
def test_sums_of_networks(name):
    chip = target("bow")
    program = compile_program(modules.module(name), CompilerOptions(target=chip))
    for step in program.steps:
        for superstep in step.supersteps:
            check_sums(superstep, chip.tiles)


def test_tiles_with_smaller_blocks_compute_less():
    chip = target("gc200", tiles_per_ipu=4)
    shape, plan = MatMulShape(m=80, k=16, n=16, dtype="float16"), MatMulPlan(rows=4)
    (multiply,) = (s for s in plan_supersteps(shape, plan, chip) if s.name == "multiply")
    found = PlanWork(target=chip, shape=shape, plan=plan, first_tile=3).figures(multiply)
    # Parts of 1, 1, 1 and 2 groups of 16 rows, from tile 3 on.
    compute = found.compute_cycles.counts
    assert compute[2] == multiply.compute_cycles
    assert compute[[3, 0, 1]] == pytest.approx(multiply.compute_cycles / 2, abs=1)


def test_a_tensor_leaves_the_tiles_that_hold_it():
    program = run(
        "x = f32[64] parameter(0)\ny = f32[64] parameter(1)\nr = f32[64] add(x, y)",
        placed={
            "x": (Placement(elements=64, element_bytes=4, first_tile=6, tiles=2),),
            "y": (Placement(elements=64, element_bytes=4, first_tile=0, tiles=4),),
        },
    )
    (add,) = program.lowered["r"].supersteps
    found = add.tile_figures
    assert found.sent_bytes.counts.tolist() == [0, 0, 0, 0, 0, 0, 128, 128]
    assert found.received_bytes.counts.tolist() == [64, 64, 64, 64, 0, 0, 0, 0]
    assert found.compute_cycles.counts.tolist() == [add.compute_cycles] * 4 + [0] * 4


def test_held_elements_are_those_of_the_layout():
    cut = blocks([Axis(extent=5, parts=2)])
    assert held_elements(Placement(elements=5, element_bytes=4, tiles=2, layout=cut)).tolist() == [
        2,
        3,
    ]
    by_name = Placement(elements=5, element_bytes=4, tiles=3, layout="unknown")
    assert held_elements(by_name).tolist() == [1, 1, 1]
    assert held_elements(Placement(elements=5, element_bytes=4, tiles=2)).tolist() == [3, 2]


def test_shares_add_up():
    assert proportional_shares(10, np.array([1, 0, 1, 1])).tolist() == [4, 0, 3, 3]
    assert proportional_shares(8, np.array([3, 2, 3]), most=3).tolist() == [3, 2, 3]
    assert proportional_shares(7, np.array([1, 1]), most=4).tolist() == [4, 3]


def test_only_details_differ_from_the_compiled_program():
    program = compile_program(modules.module("mlp"), CompilerOptions(target=target("bow")))
    found = detailed(program)
    assert found.steps == program.steps
    assert all(s.tiles is None for step in program.steps for s in step.supersteps)
    assert all(s.tiles is not None for step in found.steps for s in step.supersteps)


def test_a_program_of_too_many_figures_stays_as_it_is(monkeypatch):
    program = compile_program(modules.module("mlp"), CompilerOptions(target=target("bow")))
    supersteps = [s for step in detailed(program).steps for s in step.supersteps]
    runs = [getattr(s.tiles, field.name) for s in supersteps for field in fields(s.tiles)]
    numbers = sum(len(each.values) + len(each.tiles) for each in runs)
    monkeypatch.setattr(tile_details, "MOST_NUMBERS", numbers)
    assert detailed(program) is not program
    monkeypatch.setattr(tile_details, "MOST_NUMBERS", numbers - 1)
    assert detailed(program) is program
