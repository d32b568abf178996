"""Placements: even pieces of a sensible size, on the emptiest tiles."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipu_tf.compiler.lowering.mapping import spread_tiles
from ipu_tf.tile_program.layouts.layout import Axis, tile_offsets
from ipu_tf.tile_program.layouts.layout_form import blocks
from ipu_tf.tile_program.layouts.layout_views import split
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.messages import (
    held_extents,
    piece_overlaps,
    row_major_block,
    run_overlaps,
    unknown_overlaps,
)
from ipu_tf.tile_program.traffic import NOTHING, collect, met_by, move, to_all

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
    assert 1 <= traffic.received <= max(source.elements, tiles)
    assert 1 <= traffic.sent <= max(source.elements, tiles)
    assert traffic.code_bytes >= 8 * (1 + traffic.received + traffic.sent)


def test_all_tiles_can_get_all_of_it():
    index = Placement(elements=2, element_bytes=4, tiles=1)
    assert to_all(index, 1) == NOTHING
    assert to_all(index, 8).total_bytes == 8 * 2 * 4
    assert to_all(index, 8).sent_bytes == 2 * 4


def test_nobody_collects_nothing():
    assert collect(Placement(elements=8, element_bytes=4), received_elements=0, tiles=4) == NOTHING


def test_a_view_that_repeats_is_stored_like_an_array():
    scalar = Placement(elements=1, element_bytes=4)
    view = Placement(elements=64, element_bytes=4, tiles=4, repeats=scalar, pattern=((64, False),))
    assert view.stored == Placement(elements=64, element_bytes=4, tiles=4)
    assert scalar.stored is scalar
    assert not view.aligned(view.stored)


@pytest.mark.parametrize(
    ("field", "value", "least"),
    [("elements", -1, 0), ("element_bytes", -4, 0), ("tiles", 0, 1)],
)
def test_refuses_impossible_placements(field, value, least):
    fields = {"elements": 8, "element_bytes": 4, field: value}
    with pytest.raises(ValueError, match=f"{field} must be at least {least}. Received: {value}."):
        Placement(**fields)


def test_refuses_a_layout_of_something_else():
    layout = blocks([Axis(extent=4, parts=2), Axis(extent=6, parts=3)])
    with pytest.raises(ValueError, match="of its 8 elements on 6 tiles. Received: 24 elements on"):
        Placement(elements=8, element_bytes=4, tiles=6, layout=layout)


def test_even_pieces_are_linear_whoever_cuts_them():
    layout = blocks([Axis(extent=4, parts=4), Axis(extent=6, parts=3)])
    assert Placement(elements=24, element_bytes=4, tiles=12, layout=layout) == Placement(
        elements=24, element_bytes=4, tiles=12
    )


@st.composite
def matrices(draw):
    """A matrix of 4 x 6 elements, cut in one of a few ways."""
    rows, columns = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2, 3, 6]))
    order, share = draw(st.sampled_from([(0, 1), (1, 0)])), draw(st.sampled_from([1, 2, 3]))
    cut = [Axis(extent=4, parts=rows), Axis(extent=6, parts=columns)]
    layout = blocks(cut, order=order, share=share)
    first = draw(st.sampled_from([0, 1]))
    return Placement(
        elements=24, element_bytes=4, first_tile=first, tiles=layout.tiles, layout=layout
    )


def tiles_of(placement):
    return placement.first_tile + tile_offsets(placement.blocks)


@given(matrices(), matrices())
def test_what_is_aligned_is_on_the_same_tiles_and_all_else_is_exchanged(one, other):
    same = (tiles_of(one) == tiles_of(other)).all()
    assert one.aligned(other) == same
    assert (move(one, other) == NOTHING) == same


@given(matrices(), matrices())
def test_pieces_that_meet_are_counted(source, wanted):
    mine, theirs = tiles_of(source), tiles_of(wanted)
    met = max(len(set(mine[theirs == tile])) for tile in set(theirs))
    counted = piece_overlaps(source.blocks, wanted.blocks)
    dims = (4, 6)
    along = split(source.blocks, dims) is not None and split(wanted.blocks, dims) is not None
    if along and source.blocks.share == wanted.blocks.share == 1:
        assert counted == met
    assert 1 <= counted <= min(source.tiles, wanted.tile_elements)


def test_tiles_that_share_a_block_hold_parts_of_what_is_wanted():
    shared = blocks([Axis(extent=8, parts=2), Axis(extent=6)], share=4)
    rows = blocks([Axis(extent=8, parts=8), Axis(extent=6)])
    # A row is all that one of four tiles has of its block; a block is what four tiles have.
    assert piece_overlaps(shared, rows) == 1
    assert piece_overlaps(shared, blocks([Axis(extent=8, parts=2), Axis(extent=6)])) == 4
    columns = blocks([Axis(extent=8, parts=2), Axis(extent=6, parts=6)])
    assert piece_overlaps(shared, columns) == 4
    assert piece_overlaps(columns, shared) == 6


def test_readers_of_a_block_get_every_piece_once():
    home = blocks([Axis(extent=8, parts=2), Axis(extent=6, parts=3)], share=4)
    wanted = blocks([Axis(extent=8, parts=2), Axis(extent=6, parts=3)])
    source = Placement(elements=48, element_bytes=4, tiles=home.tiles, layout=home)
    assert (met_by(source, wanted).received, met_by(source, wanted).sent) == (4, 1)
    named = Placement(elements=48, element_bytes=4, tiles=9, layout="a name")
    assert met_by(named, wanted).received == unknown_overlaps(9) == 3


@pytest.mark.parametrize(
    ("piece", "dims", "block", "met"),
    [
        (6, (4, 6), (2, 6), 2),  # Two rows, each a piece.
        (6, (4, 6), (4, 3), 4),  # A part of every row.
        (12, (4, 6), (4, 3), 2),  # Rows are nearer than pieces are long.
        (2, (4, 6), (1, 3), 2),  # A run of three begins anywhere in a piece of two.
        (5, (4, 6), (4, 6), 5),
    ],
)
def test_runs_meet_even_pieces(piece, dims, block, met):
    assert run_overlaps(piece, dims, block) == met


@pytest.mark.parametrize(
    ("share", "held"),
    [
        (1, (8, 4, 16)),
        (2, (8, 2, 16)),  # Two of a block's four groups of features, at all positions.
        (3, (8, 2, 16)),  # A group, and a third of another one.
        (4, (8, 1, 16)),
        (8, (4, 1, 16)),  # Half of the positions, at one group.
        (64, (1, 1, 8)),
    ],
)
def test_tiles_share_a_block_by_groups_of_features(share, held):
    layout = blocks([Axis(extent=16, parts=2), Axis(extent=128, parts=2)], share=share)
    placement = Placement(elements=2048, element_bytes=2, tiles=4 * share, layout=layout)
    assert held_extents(placement, (16, 8, 16)) == held


def test_a_tile_holds_its_block_or_its_share_of_it():
    layout = blocks([Axis(extent=8, parts=2), Axis(extent=6, parts=3)], share=4)
    placement = Placement(elements=48, element_bytes=4, tiles=24, layout=layout)
    assert held_extents(placement, (8, 6)) == (1, 2)
    named = Placement(elements=48, element_bytes=4, tiles=24, layout="a name")
    assert held_extents(named, (8, 6)) == (1, 2)
    halves = blocks([Axis(extent=8), Axis(extent=6, parts=2)])
    cut = Placement(elements=48, element_bytes=4, tiles=2, layout=halves)
    assert held_extents(cut, (4, 2, 6)) == (4, 2, 3)
