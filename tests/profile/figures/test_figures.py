"""Figures are sums over steps, tensors and tiles."""

import dataclasses

import numpy as np
import pytest

from ipu_tf.profile.figures import program_figures as figures
from ipu_tf.tile_program.condensation import condensed
from ipu_tf.tile_program.layouts.footprint import Footprint
from tests.profile.programs import bytes_of, device_program, overflowing, program


def test_cycles_are_those_of_all_repetitions():
    shares = figures.cycle_shares(device_program())
    assert shares == figures.CycleShares(compute=700, exchange=180, sync=20, host=100)
    assert shares.total == device_program().cycles == 1000


def test_seconds_are_cycles_over_the_clock():
    assert figures.seconds(device_program()) == pytest.approx(1000 / 1.33e9)


def test_samples_per_second():
    assert device_program().samples_per_second == pytest.approx(6 * 1.33e6)
    assert device_program(samples_per_run=0).samples_per_second is None


def test_flops_and_their_share_of_the_peak_of_their_type():
    device = device_program()
    assert figures.flops(device) == 2880
    half = 2 * 64 * 4  # float16 operations of the four tiles in a cycle
    single = 2 * 16 * 4
    # The forward product is known as float16; nothing says what the backward product takes.
    expected = (1920 / half + 960 / single) / 1000
    assert figures.flop_utilisation(device, program().tile_ops) == pytest.approx(expected)
    assert figures.flop_utilisation(device, []) == pytest.approx(2880 / single / 1000)


def test_tile_balance_is_the_busy_share():
    assert figures.tile_balance(device_program()) == pytest.approx(2100 / (4 * 700))


def test_layers_come_by_cost_with_their_phases():
    dense, rest = figures.layers(device_program())
    assert (dense.layer, dense.cycles, dense.flops) == ("net/dense", 900, 2880)
    assert dense.by_phase == {"forward": 600, "backward": 200, "update": 100}
    assert (rest.layer, rest.by_phase) == (figures.HOST, {"forward": 100})


def test_layers_have_their_utilisation_and_bytes():
    device = device_program()
    step = dataclasses.replace(
        device.steps[1],
        supersteps=(dataclasses.replace(device.steps[1].supersteps[0], exchange_bytes=70),),
    )
    steps = (device.steps[0], step, *device.steps[2:])
    dense, rest = figures.layers(device_program(steps=steps), program().tile_ops)
    needed = 1920 / (2 * 64 * 4) + 960 / (2 * 16 * 4)
    assert dense.flop_utilisation == pytest.approx(needed / 900)
    assert dense.exchange_bytes == 2 * 70
    assert (rest.flop_utilisation, rest.exchange_bytes) == (0, 0)


def test_what_is_live_while_a_step_runs():
    (stage,) = device_program().stages
    late = {live.layer: live.other_bytes for live in figures.live_at(stage.program, 3)}
    assert late == {"net/dense": 0, "net/late": 40}


def test_what_is_in_no_layer_is_told_from_transfers_of_the_host():
    first, *steps = device_program().steps
    of_none = dataclasses.replace(first, opcode="add")
    found = figures.layers(device_program(steps=(first, of_none, *steps)))
    assert {layer.layer for layer in found} == {"net/dense", figures.HOST, ""}


def test_what_is_live_at_the_peak():
    dense, rest = figures.live_at_peak(device_program())
    assert (dense.layer, dense.always_live_bytes, dense.other_bytes) == ("net/dense", 160, 80)
    assert (rest.layer, rest.always_live_bytes, rest.other_bytes) == ("", 0, 40)


def test_live_bytes_are_those_that_tiles_hold():
    kernel, made, *others = device_program().tensors
    padded = dataclasses.replace(made, footprint=Footprint(first_tile=1, tiles=3, tile_bytes=41))
    device = device_program(tensors=(kernel, padded, *others))
    assert figures.live_at_peak(device)[0].other_bytes == 3 * 41
    assert figures.live_at_peak(condensed(device).stages[0].program) == figures.live_at_peak(device)
    assert condensed(condensed(device)).tensors == condensed(device).tensors


def test_the_type_of_a_contraction_is_its_own_or_else_that_of_its_tile_op():
    first, dot, other, *_ = device_program().steps
    half = dataclasses.replace(other, dtype="float16")
    found = figures.input_types((first, dot, other, half), program().tile_ops)
    assert [dtype for _, dtype in found] == ["float32", "float16", "float32", "float16"]


def test_bytes_of_tiles_are_those_of_all_categories():
    memory = device_program().memory
    np.testing.assert_array_equal(figures.tile_bytes(memory), [65, 65, 85, 45])
    assert figures.fits(memory)
    assert not figures.fits(overflowing().memory)


def test_a_program_of_nothing_has_figures_too():
    memory = dataclasses.replace(
        device_program().memory,
        always_live={},
        not_always_live_peak={},
        live_bytes=bytes_of(),
        max_tile_bytes=bytes_of(),
    )
    empty = device_program(steps=(), tensors=(), memory=memory)
    assert figures.cycle_shares(empty).total == 0
    assert figures.flop_utilisation(empty, []) == figures.tile_balance(empty) == 0.0
    assert empty.samples_per_second is None
    assert figures.layers(empty) == figures.live_at_peak(empty) == ()
    assert figures.fits(memory)
