"""Bytes of every tile: against a dense simulation, and conservation."""

import dataclasses
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipu_tf.machine import target
from ipu_tf.tile_program.layouts.footprint import Footprint, bytes_on_tile, slices
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.memory import CATEGORIES, stack_bytes, tile_memory
from ipu_tf.tile_program.program import Tensor

TILES = 8
CHIP = target("bow", TILES)


def tensor(name="t", *, first_tile=0, tiles=1, tile_bytes=4, steps=(0, 0), **changes):
    footprint = Footprint(first_tile=first_tile, tiles=tiles, tile_bytes=tile_bytes)
    made = Tensor(
        name=name,
        layer="",
        category="activations",
        footprint=footprint,
        bytes=tiles * tile_bytes,
        first_step=steps[0],
        last_step=steps[1],
    )
    return dataclasses.replace(made, **changes)


@st.composite
def programs(draw):
    steps = draw(st.integers(1, 6))
    tensors = []
    for index in range(draw(st.integers(0, 8))):
        first = draw(st.integers(0, steps - 1))
        last = draw(st.integers(first, steps - 1))
        always = draw(st.booleans())
        tensors.append(
            tensor(
                f"t{index}",
                first_tile=draw(st.integers(0, TILES - 1)),
                tiles=draw(st.integers(1, TILES)),
                tile_bytes=draw(st.integers(0, 100)),
                steps=(0, steps - 1) if always else (first, last),
                always_live=always,
                category=draw(st.sampled_from(CATEGORIES)),
            )
        )
    return tensors, steps


def dense(tensors, steps):
    """int64[steps, tiles], one tensor, step and tile at a time."""
    used = np.zeros((steps, TILES), np.int64)
    for item in tensors:
        for step in range(item.first_step, item.last_step + 1):
            for offset in range(item.footprint.tiles):
                tile = (item.footprint.first_tile + offset) % TILES
                used[step, tile] += item.footprint.tile_bytes
    return used


def measured(tensors, steps, **program_bytes):
    return tile_memory(tensors, steps=steps, target=CHIP, program_bytes=program_bytes)


@given(programs())
def test_memory_equals_a_dense_simulation(program):
    tensors, steps = program
    used = dense(tensors, steps)
    memory = measured(tensors, steps)
    np.testing.assert_array_equal(memory.live_bytes, used.sum(axis=1))
    np.testing.assert_array_equal(memory.max_tile_bytes, used.max(axis=1))
    assert memory.peak_step == int(np.argmax(used.max(axis=1)))
    np.testing.assert_array_equal(memory.peak_tile_bytes, used[memory.peak_step])
    assert memory.fullest_tile == int(np.argmax(used[memory.peak_step]))


@given(programs())
def test_always_live_bytes_are_those_of_the_tensors(program):
    tensors, steps = program
    memory = measured(tensors, steps)
    for category in CATEGORIES:
        kept = [item for item in tensors if item.always_live and item.category == category]
        assert memory.always_live[category].sum() == sum(item.bytes for item in kept)


def test_code_and_stacks_count_on_their_tiles():
    code = np.arange(TILES, dtype=np.int64)
    memory = measured([tensor(tiles=TILES)], 1, vertex_code=code)
    np.testing.assert_array_equal(memory.always_live["vertex_code"], code)
    np.testing.assert_array_equal(memory.peak_tile_bytes, code + 4)
    assert memory.max_tile_bytes.tolist() == [TILES - 1 + 4]


def test_a_program_without_steps_holds_what_is_always_live():
    memory = measured([tensor(always_live=True)], 0)
    assert memory.live_bytes.shape == (0,)
    assert memory.peak_tile_bytes.tolist() == [4] + [0] * (TILES - 1)


def test_overflow_is_what_the_fullest_tile_lacks():
    limit = CHIP.tile_bytes
    fitting = measured([tensor(tile_bytes=limit, first_tile=3)], 1)
    assert fitting.fits
    assert fitting.overflow_bytes == 0
    over = measured([tensor(tile_bytes=limit + 12, first_tile=3)], 1)
    assert not over.fits
    assert (over.fullest_tile, over.overflow_bytes) == (3, 12)


def test_footprints_wrap_around():
    footprint = Footprint(first_tile=6, tiles=4, tile_bytes=5)
    assert slices(footprint, TILES) == (slice(6, 8), slice(0, 2))
    on_tiles = [bytes_on_tile(footprint, tile, TILES) for tile in range(TILES)]
    assert on_tiles == [5, 5, 0, 0, 0, 0, 5, 5]


@given(st.integers(1, 500), st.integers(1, TILES), st.integers(0, TILES - 1))
def test_a_placement_takes_its_elements_and_their_padding(elements, tiles, first_tile):
    placement = Placement(elements=elements, element_bytes=4, tiles=tiles, first_tile=first_tile)
    footprint = placement.footprint
    on_tiles = sum(bytes_on_tile(footprint, tile, TILES) for tile in range(TILES))
    assert on_tiles == 4 * placement.tile_elements * tiles
    assert 0 <= on_tiles - placement.bytes < 4 * tiles


@pytest.mark.parametrize(("first_tile", "tiles"), [(0, TILES + 1), (TILES, 1), (-1, 1)])
def test_footprints_off_the_chip_are_refused(first_tile, tiles):
    footprint = Footprint(first_tile=first_tile, tiles=tiles, tile_bytes=1)
    with pytest.raises(ValueError, match="must lie on the chip's 8 tiles. Received: Footprint"):
        slices(footprint, TILES)


def test_stacks_are_one_for_every_thread():
    assert stack_bytes(target("gc2")) * 1216 == 3_852_288


def test_many_steps_take_little_time():
    chip, steps = target("bow"), 12_000
    tensors = [
        tensor(
            str(index),
            first_tile=index * 37 % chip.tiles,
            tiles=1 + index * 7919 % chip.tiles,
            steps=(index, min(steps - 1, index + index % 50)),
        )
        for index in range(steps)
    ]
    begin = time.process_time()
    tile_memory(tensors, steps=steps, target=chip, program_bytes={})
    assert time.process_time() - begin < 1.0
