"""Tensors that change their layout are packed and unpacked on the tiles, in pieces."""

import pytest

from ipu_tf.planner.plan import MatMulPlan, MatMulShape
from ipu_tf.tile_program.layouts.layout import Axis, BlockLayout
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.messages import common_run
from ipu_tf.tile_program.traffic import NOTHING, move
from tests.compiler.lowering.programs import run


def lying(*axes, first_tile=0):
    layout = BlockLayout(axes=axes, order=tuple(range(len(axes))))
    return Placement(
        elements=layout.elements,
        element_bytes=2,
        first_tile=first_tile,
        tiles=layout.tiles,
        layout=layout,
    )


BY_ROWS = lying(Axis(extent=64, parts=8), Axis(extent=64))


@pytest.mark.parametrize(
    ("other", "run_elements", "rate"),
    [
        (lying(Axis(extent=64), Axis(extent=64, parts=8)), 8, 0.44),
        (lying(Axis(extent=64), Axis(extent=64, parts=32)), 2, 3.1),
        (lying(Axis(extent=64), Axis(extent=64, parts=64)), 1, 5.1),
    ],
)
def test_shorter_pieces_take_longer(other, run_elements, rate):
    assert common_run(BY_ROWS, other) == run_elements
    expected = rate * other.tile_elements * 2
    assert move(BY_ROWS, other).rearranged_cycles == pytest.approx(expected, abs=1)


def test_what_moves_in_one_piece_is_not_rearranged():
    elsewhere = lying(Axis(extent=64, parts=8), Axis(extent=64), first_tile=8)
    moved = move(BY_ROWS, elsewhere)
    assert moved != NOTHING
    assert moved.rearranged_cycles == 0
    assert move(BY_ROWS, BY_ROWS) == NOTHING


def test_a_gradient_behind_a_gate_lies_like_the_activation():
    other = lying(Axis(extent=64), Axis(extent=64, parts=8))
    program = run(
        "y = f16[64,64] parameter(0)\ng = f16[64,64] parameter(1)\n"
        'r = f16[64,64] gate(y, g), comparison_direction="GT", threshold=0.0',
        placed={"y": (BY_ROWS,), "g": (other,)},
    )
    assert program.placements["r"] == (BY_ROWS,)
    assert program.exchange_bytes("r") == other.bytes


def exchanged(columns, operand):
    """Cycles of the exchanges of a product whose left operand lies so."""
    text = (
        "x = f16[64,64] parameter(0)\nw = f16[64,64] parameter(1)\nr = f16[64,64] dot(x, w), "
        'dot_dimension_numbers={lhs_contracting={1} rhs_contracting={0}}, op_name="product"'
    )
    shape = MatMulShape(m=64, k=64, n=64, dtype="float16")
    plan = MatMulPlan(rows=2, columns=columns, grain=16, partials="float16")
    product = run(text, tiles=16, plans={"product": (shape, plan)}, placed={"x": (operand,)})
    assert product.lowered["r"].plan == plan
    return sum(step.exchange_cycles for step in product.lowered["r"].supersteps)


@pytest.mark.parametrize(("columns", "rate"), [(4, 0), (8, 0.44)])
def test_a_few_tiles_fetch_an_operand_from_where_it_lies(columns, rate):
    by_columns = lying(Axis(extent=64), Axis(extent=64, parts=4))
    one_piece = lying(Axis(extent=64, parts=4), Axis(extent=64))
    more = exchanged(columns, by_columns) - exchanged(columns, one_piece)
    share_bytes = 64 * 64 * 2 / (2 * columns)
    assert more == pytest.approx(rate * share_bytes, abs=2)


def test_a_few_tiles_put_halves_of_words_together():
    halves = lying(Axis(extent=64), Axis(extent=64, parts=64))
    words = lying(Axis(extent=64), Axis(extent=64, parts=32))
    assert exchanged(4, halves) > exchanged(4, words) + 1000


@pytest.mark.parametrize(("row", "rate"), [(29, 5.1), (30, 3.1), (32, 0.44)])
def test_long_pieces_move_by_what_divides_them(row, rate):
    by_columns = lying(Axis(extent=64), Axis(extent=8 * row, parts=8))
    by_rows = lying(Axis(extent=64, parts=8), Axis(extent=8 * row))
    assert common_run(by_rows, by_columns) == row
    expected = rate * by_columns.tile_elements * 2
    assert move(by_rows, by_columns).rearranged_cycles == pytest.approx(expected, abs=1)


@pytest.mark.parametrize(
    ("features", "parts", "grain", "unit"),
    [(197, 3, 1, 1), (198, 3, 1, 66), (196, 3, 1, 1), (196, 3, 16, 4), (768, 5, 16, 16)],
)
def test_an_odd_part_breaks_the_rows_of_all(features, parts, grain, unit):
    cut = lying(Axis(extent=16), Axis(extent=features, parts=parts, grain=grain))
    assert common_run(lying(Axis(extent=16, parts=4), Axis(extent=features)), cut) == unit


def test_rows_that_are_cut_alike_move_in_their_parts():
    cut = Axis(extent=197, parts=3)
    assert common_run(lying(Axis(extent=16, parts=4), cut), lying(Axis(extent=16), cut)) == 66
