"""Placements: even pieces of a sensible size, on the emptiest tiles."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipu_tf.compiler.lowering.mapping import row_major_block, spread_tiles
from ipu_tf.compiler.lowering.traffic import NOTHING, collect, move, to_all
from ipu_tf.compiler.placement import Placement

PLACEMENTS = st.builds(
    Placement,
    elements=st.integers(1, 10_000),
    element_bytes=st.just(4),
    tiles=st.integers(1, 64),
    layout=st.sampled_from(["linear", "other"]),
)


@given(st.integers(0, 10**7), st.sampled_from([1, 2, 4, 8]), st.integers(1, 1472))
def test_pieces_are_whole_vectors_of_a_sensible_size(elements, size, most):
    tiles = spread_tiles(elements, size, most)
    assert 1 <= tiles <= most
    piece = -(-elements // tiles)
    assert piece * tiles >= elements
    assert tiles == 1 or elements * size > 64 * tiles


@pytest.mark.parametrize(
    ("elements", "size", "tiles"), [(1, 4, 1), (32, 4, 1), (33, 4, 2), (1472 * 32, 4, 1472)]
)
def test_a_tile_has_at_least_128_bytes_in_mind(elements, size, tiles):
    assert spread_tiles(elements, size, 1472) == tiles


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 3000))
def test_a_block_covers_its_run(dims, elements):
    block = row_major_block(dims, elements)
    covered = whole = 1
    for extent, part in zip(dims, block, strict=True):
        assert 1 <= part <= extent
        covered *= part
        whole *= extent
    assert covered >= min(elements, whole)


@given(PLACEMENTS)
def test_nothing_moves_to_where_it_is(placement):
    assert move(placement, placement) == NOTHING


@given(PLACEMENTS, st.integers(1, 64))
def test_what_moves_is_the_whole(source, tiles):
    destination = dataclasses.replace(source, tiles=tiles, layout="new")
    traffic = move(source, destination)
    if traffic == NOTHING:
        assert source.tiles == tiles == 1
        return
    assert traffic.total_bytes == source.bytes
    assert traffic.received_bytes * tiles >= source.bytes
    assert traffic.sent_bytes * source.tiles >= source.bytes
    assert 1 <= traffic.messages <= max(source.elements, tiles)


def test_all_tiles_can_get_all_of_it():
    index = Placement(elements=2, element_bytes=4, tiles=1)
    assert to_all(index, 1) == NOTHING
    assert to_all(index, 8).total_bytes == 8 * 2 * 4
    assert to_all(index, 8).sent_bytes == 2 * 4


def test_nobody_collects_nothing():
    assert collect(Placement(elements=8, element_bytes=4), received_elements=0, tiles=4) == NOTHING


def test_a_view_that_repeats_is_stored_like_an_array():
    scalar = Placement(elements=1, element_bytes=4)
    view = Placement(elements=64, element_bytes=4, tiles=4, repeats=scalar, run=64)
    assert view.stored == Placement(elements=64, element_bytes=4, tiles=4)
    assert scalar.stored is scalar
    assert not view.aligned(view.stored)


@pytest.mark.parametrize(
    ("field", "value", "least"),
    [("elements", -1, 0), ("element_bytes", -4, 0), ("tiles", 0, 1), ("run", 0, 1)],
)
def test_refuses_impossible_placements(field, value, least):
    fields = {"elements": 8, "element_bytes": 4, field: value}
    with pytest.raises(ValueError, match=f"{field} must be at least {least}. Received: {value}."):
        Placement(**fields)
