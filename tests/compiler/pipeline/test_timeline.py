"""The time of schedules against closed forms, and of links and replicas."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipu_tf.compiler.pipeline.schedule import slots
from ipu_tf.compiler.pipeline.timeline import Wiring, timeline
from ipu_tf.machine import links, sync
from ipu_tf.machine.system import system_of
from ipu_tf.tile_program.device_program import Crossing


def wiring(stages, **changes):
    values = {"ipus": tuple(range(stages)), "replica_ipus": 1 << (stages - 1).bit_length()}
    return Wiring(system=system_of("bow", 16), **(values | changes))


def played(schedule, forward, backward, micro_batches, crossings=(), **changes):
    stages = len(forward)
    cycles = {(stage, "forward"): value for stage, value in enumerate(forward)}
    cycles |= {(stage, "backward"): value for stage, value in enumerate(backward)}
    found = slots(schedule, stages=stages, micro_batches=micro_batches, training=bool(backward))
    return timeline(found, cycles, crossings, wiring(stages, **changes))


def crossing(**changes):
    values = {"name": "x", "layer": "", "source": 0, "destination": 1, "phase": "forward"}
    return Crossing(**(values | {"bytes": 1 << 20} | changes))


@given(st.integers(1, 8), st.integers(1, 30), st.integers(1, 1000), st.integers(1, 1000))
def test_grouped_bubble_is_that_of_the_closed_form(stages, count, forward, backward):
    found = played("grouped", [forward] * stages, [backward] * stages, count)
    assert found.cycles == (count + stages - 1) * (forward + backward)
    assert found.bubble_share == pytest.approx((stages - 1) / (count + stages - 1))
    assert found.ramp_up_cycles == (stages - 1) * forward
    assert found.ramp_down_cycles == (stages - 1) * backward


@given(st.integers(1, 8), st.integers(1, 30), st.integers(1, 1000))
def test_interleaved_bubble_is_that_of_the_closed_form(stages, count, cycles):
    found = played("interleaved", [cycles] * stages, [cycles] * stages, count)
    assert found.cycles == 2 * (count + stages - 1) * cycles
    assert found.bubble_share == pytest.approx((stages - 1) / (count + stages - 1))


def test_sequential_takes_the_sum_of_all_passes():
    found = played("sequential", [3, 5, 7], [11, 13, 17], 4)
    assert found.cycles == 4 * (3 + 5 + 7 + 11 + 13 + 17)
    assert found.busy_cycles == (4 * 14, 4 * 18, 4 * 24)


def test_inference_has_no_backward_pass():
    found = played("grouped", [10, 20], [], 5)
    assert found.cycles == 10 + 20 * 5
    assert found.busy_cycles == (50, 100)


def test_stages_on_one_ipu_follow_one_another():
    apart = played("grouped", [10, 10, 10, 10], [10] * 4, 8)
    shared = played("grouped", [10, 10, 10, 10], [10] * 4, 8, ipus=(0, 1, 0, 1), replica_ipus=2)
    assert shared.busy_cycles == (320, 320)
    assert shared.cycles > apart.cycles


@given(st.integers(0, 3), st.integers(1, 500))
def test_a_longer_stage_never_makes_the_pipeline_shorter(stage, more):
    forward = [100, 200, 300, 50]
    longer = [value + more * (place == stage) for place, value in enumerate(forward)]
    for schedule in ("grouped", "interleaved", "sequential"):
        before = played(schedule, forward, [70] * 4, 6).cycles
        assert played(schedule, longer, [70] * 4, 6).cycles >= before


def test_values_cross_after_the_slot_in_which_they_are_made():
    way = wiring(2)
    expected = way.transfer_cycles([crossing()])
    found = played("sequential", [10, 10], [10, 10], 3, [crossing()])
    assert found.link_cycles == 3 * expected
    assert found.cycles == 3 * (40 + expected)


def test_transfers_side_by_side_take_as_long_as_the_longest():
    way = wiring(4)
    one = way.transfer_cycles([crossing(source=0, destination=1)])
    both = way.transfer_cycles(
        [crossing(source=0, destination=1), crossing(source=2, destination=3)]
    )
    twice = way.transfer_cycles([crossing(source=0, destination=1)] * 2)
    assert both == one
    assert twice > one


def test_transfers_that_skip_a_stage_share_the_rail_with_others():
    way = wiring(4)
    skip, neighbour = crossing(source=0, destination=2), crossing(source=1, destination=2)
    both, alone = way.transfer_cycles([skip, neighbour]), way.transfer_cycles([neighbour])
    rail = links.bytes_per_second(way.system, links.Route(rail_hops=1))
    more = skip.bytes / rail * way.system.target.clock_hz
    assert both - alone == pytest.approx(more, abs=1)
    backward = crossing(source=2, destination=1, phase="backward")
    assert way.transfer_cycles([skip, neighbour, backward]) == both


def test_what_stays_on_an_ipu_takes_no_link():
    assert wiring(2, ipus=(0, 0), replica_ipus=1).transfer_cycles([crossing()]) == 0


def test_a_transfer_is_that_of_the_route_and_a_sync():
    system = system_of("bow", 16)
    seconds = links.transfer_seconds(system, links.route(system, 0, 1), 1 << 20)
    expected = round(seconds * system.target.clock_hz) + sync.cross_ipu_cycles(system, 2)
    assert wiring(2).transfer_cycles([crossing()]) == expected


def test_values_of_the_update_do_not_cross_with_micro_batches():
    assert played("grouped", [1, 1], [1, 1], 4, [crossing(phase="update")]).link_cycles == 0


def test_all_reduce_grows_with_bytes_and_is_nothing_for_one_replica():
    one, four = wiring(2), dataclasses.replace(wiring(2), replicas=4)
    assert one.all_reduce_cycles(1 << 20) == 0
    assert four.all_reduce_cycles(0) == 0
    assert 0 < four.all_reduce_cycles(1 << 20) < four.all_reduce_cycles(1 << 22)


def test_replicas_add_up_gradients_as_a_program_of_one_stage_does():
    system = system_of("bow", 16)
    each = Wiring(system=system, ipus=(0,), replica_ipus=1, replicas=16)
    seconds = links.all_reduce_seconds(system, 16, 51_000_000)
    expected = round(seconds * system.target.clock_hz) + sync.cross_ipu_cycles(system, 16)
    assert each.all_reduce_cycles(51_000_000) == expected
    assert seconds < 4e-3
