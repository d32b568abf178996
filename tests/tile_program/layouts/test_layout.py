"""Layouts against brute force: the tile of every element."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipu_tf.planner.partition import partition
from ipu_tf.tile_program.layouts.layout import (
    Axis,
    BlockLayout,
    overlaps,
    tile_counts,
    tile_offsets,
    view,
)
from ipu_tf.tile_program.layouts.layout_form import blocks, linear
from ipu_tf.tile_program.layouts.layout_views import (
    common_dims,
    keeps_reversed,
    reduced,
    resized,
    split,
    transposed,
)
from tests.grids import examples


@st.composite
def axes(draw):
    extent = draw(st.integers(1, 6))
    grain = draw(st.integers(1, 3))
    parts = draw(st.integers(1, math.ceil(extent / grain)))
    steps = draw(st.sampled_from([n for n in range(1, parts + 1) if parts % n == 0]))
    return Axis(extent=extent, parts=parts, grain=grain, steps=steps)


@st.composite
def cuts(draw, shares=4):
    """Axes, the order in which their tiles are numbered, and how many share a block."""
    cut = draw(st.lists(axes(), min_size=1, max_size=4))
    order = draw(st.permutations(range(len(cut))))
    return cut, order, draw(st.integers(1, shares))


def brute_force(cut, order, share):
    """The tile of every element, straight from the definition of a partition."""
    parts = [partition(axis.extent, axis.parts, axis.grain) for axis in cut]
    share = min(share, math.prod(max(e - b for b, e in own) for own in parts))
    tiles = []
    for index in itertools.product(*(range(axis.extent) for axis in cut)):
        within, size, coordinates = 0, 1, []
        for element, axis, own in zip(index, cut, parts, strict=True):
            part = next(n for n, (begin, end) in enumerate(own) if begin <= element < end)
            begin, end = own[part]
            within = within * (end - begin) + element - begin
            size *= end - begin
            coordinates.append(part % (axis.parts // axis.steps))
        tile = 0
        for number in order:
            tile = tile * (cut[number].parts // cut[number].steps) + coordinates[number]
        tiles.append(tile * share + within // math.ceil(size / share))
    return np.array(tiles)


@examples(150)
@given(cuts())
def test_the_kept_form_has_every_element_on_its_tile(cut):
    layout = blocks(cut[0], order=cut[1], share=cut[2])
    expected = brute_force(*cut)
    assert (tile_offsets(layout) == expected).all()
    assert layout.elements == len(expected)
    assert layout.tiles > expected.max()
    assert layout.tile_elements >= np.bincount(expected).max()


@given(st.integers(1, 60), st.integers(1, 20))
def test_linear_is_even_pieces(elements, tiles):
    piece = math.ceil(elements / tiles)
    assert tile_offsets(linear(elements, tiles)).tolist() == [e // piece for e in range(elements)]


@examples(300)
@given(cuts())
def test_tiles_hold_as_many_elements_as_lie_on_them(cut):
    layout = blocks(cut[0], order=cut[1], share=cut[2])
    counts = tile_counts(layout)
    assert counts.shape == (layout.tiles,)
    assert counts.sum() == layout.elements
    if layout.share == 1 or all(axis.steps == 1 for axis in layout.axes):
        expected = np.bincount(tile_offsets(layout), minlength=layout.tiles)
        assert counts.tolist() == expected.tolist()


def test_a_layout_is_told_by_its_blocks_not_by_its_dimensions():
    whole = blocks([Axis(extent=24, parts=6)])
    assert blocks([Axis(extent=6, parts=6), Axis(extent=4)]) == whole
    assert blocks([Axis(extent=3, parts=3), Axis(extent=8, parts=2)]) == whole
    assert blocks([Axis(extent=1), Axis(extent=24)], share=6) == whole
    assert blocks([Axis(extent=3, parts=3), Axis(extent=8)], share=2) == whole
    assert blocks([Axis(extent=3), Axis(extent=8, parts=2)]) != whole


def test_the_order_of_tiles_counts():
    cut = [Axis(extent=4, parts=2), Axis(extent=6, parts=3)]
    assert blocks(cut) != blocks(cut, order=(1, 0))


@pytest.mark.slow
@examples(200)
@given(cuts(shares=1), st.data())
def test_transposed_views_are_on_the_tiles_of_their_elements(cut, data):
    layout = blocks(cut[0], order=cut[1])
    dims = [axis.extent for axis in cut[0]]
    permutation = data.draw(st.permutations(range(len(dims))))
    found = transposed(layout, dims, permutation)
    assert found is not None
    there = tile_offsets(layout).reshape(dims).transpose(permutation)
    assert (tile_offsets(found).reshape(there.shape) == there).all()
    back = transposed(found, there.shape, np.argsort(permutation).tolist())
    assert back == layout


def test_no_blocks_where_parts_end_within_rows():
    assert transposed(linear(24, 5), (6, 4), (1, 0)) is None
    assert split(linear(24, 5), (6, 4)) is None
    assert reduced(linear(24, 5), (6, 4), (1,)) is None
    assert resized(linear(24, 5), (6, 4), (3, 4)) is None
    assert not keeps_reversed(linear(24, 5), (6, 4), (1,))


@pytest.mark.slow
@examples(200)
@given(cuts(shares=1), st.data())
def test_what_keeps_reversed_does(cut, data):
    layout, dims = blocks(cut[0], order=cut[1]), [axis.extent for axis in cut[0]]
    turned = data.draw(st.sets(st.integers(0, len(dims) - 1), min_size=1))
    if keeps_reversed(layout, dims, sorted(turned)):
        there = tile_offsets(layout).reshape(dims)
        assert (np.flip(there, sorted(turned)) == there).all()


def test_uncut_dimensions_may_be_reversed():
    layout = blocks([Axis(extent=4), Axis(extent=6, parts=3)])
    assert keeps_reversed(layout, (4, 6), (0,))
    assert not keeps_reversed(layout, (4, 6), (1,))


@pytest.mark.slow
@examples(200)
@given(cuts(shares=1), st.data())
def test_what_is_reduced_lies_where_its_operands_do(cut, data):
    layout, dims = blocks(cut[0], order=cut[1]), [axis.extent for axis in cut[0]]
    gone = data.draw(st.sets(st.integers(0, len(dims) - 1), min_size=1))
    found = reduced(layout, dims, sorted(gone))
    there = tile_offsets(layout).reshape(dims)
    alone = (there == there.min(axis=tuple(gone), keepdims=True)).all()
    if found is None:
        assert not alone
    else:
        assert (tile_offsets(found) == there.min(axis=tuple(gone)).ravel()).all()


def test_a_resized_layout_is_cut_as_often():
    layout = blocks([Axis(extent=4, parts=2), Axis(extent=8, parts=4), Axis(extent=3)])
    halved = blocks([Axis(extent=4, parts=2), Axis(extent=4, parts=4), Axis(extent=3)])
    assert resized(layout, (4, 8, 3), (4, 4, 3)) == halved
    assert resized(layout, (4, 8, 3), (4, 3, 3)).tiles == 2 * 3
    assert resized(layout, (4, 8, 3), (4, 12)) is None


@pytest.mark.slow
@examples(200)
@given(axes(), st.data())
def test_overlaps_are_counted(source, data):
    other = data.draw(axes().filter(lambda axis: axis.extent == source.extent))
    mine, theirs = (brute_force([axis], [0], 1) for axis in (source, other))
    met = max(len(set(mine[theirs == at])) for at in set(theirs))
    assert overlaps(source, other) >= met
    if source.steps == other.steps == 1:
        assert overlaps(source, other) == met


@pytest.mark.slow
@given(cuts(), cuts())
def test_common_dimensions_have_the_borders_of_both(cut, other):
    one, two = (blocks(c[0], order=c[1], share=c[2]) for c in (cut, other))
    if one.elements != two.elements:
        return
    dims = common_dims(one, two)
    if dims is not None:
        assert math.prod(dims) == one.elements
        for layout in (one, two):
            apart = split(layout, dims)
            if apart is not None:
                assert [axis.extent for axis in apart[0].axes] == list(dims)
                assert (tile_offsets(apart[0]) == tile_offsets(layout)).all()


def test_a_view_there_and_back_is_what_it_was():
    base = blocks([Axis(extent=4, parts=2)], share=2)
    there = view(view(base, "reversed"), "transposed")
    assert view(there, "back", undone_by="transposed") == view(base, "reversed")
    assert view(view(base, "reversed"), "reversed", undone_by="reversed") is base
    assert view("linear", "slice") != "linear"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"extent": 0}, "must be positive"),
        ({"extent": 4, "parts": 5}, "at most one part a grain"),
        ({"extent": 4, "parts": 3, "grain": 2}, "at most one part a grain"),
        ({"extent": 4, "parts": 4, "steps": 3}, "steps that divide the parts"),
    ],
)
def test_refuses_impossible_axes(fields, message):
    with pytest.raises(ValueError, match=message + r".*Received: Axis\("):
        Axis(**fields)


def test_blocks_know_their_size():
    layout = BlockLayout(
        axes=(Axis(extent=6, parts=4), Axis(extent=5, parts=2)), order=(0, 1), share=2
    )
    assert (layout.elements, layout.tiles) == (30, 16)
    assert layout.tile_elements == math.ceil(2 * 3 / 2)
