"""Where the device computes an operation."""

import dataclasses

from ipu_tf.machine.superstep import Superstep
from ipu_tf.programs.device_places import DevicePlaces, OpPlace
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.tile_work import StageWork
from tests.profile.programs import device_program


def superstep(name, elements, **placed):
    where = Placement(elements=elements, element_bytes=4, **placed)
    return Superstep(
        name=name,
        compute_cycles=10,
        busy_tile_cycles=10 * where.tiles,
        work=StageWork(tiles=4, where=where),
    )


def places(*steps):
    """The places in a program with steps of one operation."""
    first = device_program().steps[1]
    changed = [dataclasses.replace(first, supersteps=(step,)) for step in steps]
    return DevicePlaces(device_program(steps=tuple(changed)))


def test_the_step_whose_result_has_the_element():
    found = places(superstep("largest", 2), superstep("divide", 6, first_tile=3, tiles=2))
    assert found.of("net/dense/MatMul", (2, 3), (1, 1)) == OpPlace(
        step=1, superstep="divide", tiles=2, tile_ranges=((0, 0), (3, 3)), tile=0
    )


def test_the_first_step_if_none_has_it():
    found = places(superstep("largest", 2, tiles=2), superstep("divide", 6))
    place = found.of("net/dense/MatMul", (5,), (0,))
    assert (place.step, place.superstep, place.tile) == (0, "largest", None)
    assert place.tile_ranges == ((0, 1),)


def test_an_operation_is_joined_with_the_nearest_that_reads_it():
    found = places(superstep("divide", 6))
    reads = {"first": ["second"], "second": ["third", "other"], "third": ["net/dense/MatMul"]}
    owner = found.step_owner("first", lambda name: reads.get(name, ()), lambda name: ())
    assert owner == "net/dense/MatMul"


def test_an_operation_is_joined_with_what_it_reads_if_nothing_behind_it_has_a_step():
    found = places(superstep("divide", 6))
    back = {"last": ["mul"], "mul": ["net/dense/MatMul", "mul"]}
    assert found.step_owner("last", lambda name: (), back.__getitem__) == "net/dense/MatMul"
    assert found.step_owner("last", lambda name: (), lambda name: ()) == ""


def test_steps_of_files_have_no_work():
    place = DevicePlaces(device_program()).of("net/dense/MatMul", (6, 10), (0, 0))
    assert place == OpPlace(step=1, superstep="multiply")


def test_operations_without_a_step():
    assert DevicePlaces(device_program()).of("other", (1,), (0,)) is None
    assert DevicePlaces(None).of("net/dense/MatMul", (1,), (0,)) is None
