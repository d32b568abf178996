"""Operands whose summed dimension is not innermost in memory are transposed before the products."""

import pytest

from ipu_tf.compiler.lowering.contractions.operand_transpositions import (
    is_weight_gradient,
    transpositions,
)
from tests.compiler.lowering.programs import run

SUMS = "dot_dimension_numbers={lhs_contracting={%d} rhs_contracting={%d}}"


FILLED = {"batch": 1, "rows": 64, "columns": 32, "reduction": 64}


def transposed_cycles(rows, columns, left, right, phase="backward"):
    """Cycles of the transpositions of a dot of two results: f16[rows,columns] and one like it."""
    shapes = [(rows, columns) if axis == 0 else (columns, rows) for axis in (left, right)]
    (a, b), (c, d) = shapes
    made = run(
        f"p = f16[{a},{b}] parameter(0)\nq = f16[{c},{d}] parameter(1)\n"
        f"x = f16[{a},{b}] negate(p)\ny = f16[{c},{d}] negate(q)\n"
        f"r = f16[{columns},{columns}] dot(x, y), {SUMS % (left, right)}, phase={phase}"
    ).lowered["r"]
    return [step.compute_cycles for step in made.supersteps if step.name == "transpose"]


def test_operands_that_are_summed_along_rows_in_memory_stay():
    assert transposed_cycles(64, 48, 1, 1) == []


def test_operands_that_are_summed_across_rows_are_transposed():
    assert len(transposed_cycles(64, 48, 0, 0)) == 2
    assert len(transposed_cycles(64, 48, 0, 1)) == 1


def test_summed_rows_that_no_block_divides_are_filled_up_before():
    assert transposed_cycles(197, 64, 0, 1) == transposed_cycles(208, 64, 0, 1)


def test_columns_that_no_block_divides_move_one_by_one():
    even, odd = (transposed_cycles(208, columns, 0, 1)[0] for columns in (196, 197))
    assert odd > 10 * even


def test_neighbouring_dimensions_that_are_summed_are_one():
    sums = "dot_dimension_numbers={lhs_contracting={0,1} rhs_contracting={0,1}}"
    made = run(
        "p = f16[8,197,64] parameter(0)\nq = f16[8,197,64] parameter(1)\n"
        "x = f16[8,197,64] negate(p)\ny = f16[8,197,64] negate(q)\n"
        f"r = f16[64,64] dot(x, y), {sums}, phase=backward"
    ).lowered["r"]
    merged = [step.compute_cycles for step in made.supersteps if step.name == "transpose"]
    assert merged == transposed_cycles(8 * 197, 64, 0, 0)


@pytest.mark.parametrize(("summed", "count"), [(0, 0), (1, 1)])
def test_a_view_lies_as_its_operand(summed, count):
    width = 64 if summed else 48
    made = run(
        f"p = f16[64,48] parameter(0)\nq = f16[32,{width}] parameter(1)\n"
        "x = f16[64,48] negate(p)\nt = f16[48,64] transpose(x), dimensions={1,0}\n"
        f"v = f16[48,1,64] reshape(t)\nw = f16[48,64] reshape(v)\ny = f16[32,{width}] negate(q)\n"
        f"r = f16[{112 - width},32] dot(w, y), {SUMS % (summed, 1)}"
    ).lowered["r"]
    assert sum(step.name == "transpose" for step in made.supersteps) == count


def weight(phase):
    """Names of the supersteps of a product with a weight, f16[64,32], forward or backward."""
    summed, width = (0, 64) if phase == "forward" else (1, 32)
    made = run(
        f"p = f16[16,{width}] parameter(0)\nw = f16[64,32] parameter(1)\n"
        f"x = f16[16,{width}] negate(p)\n"
        f"r = f16[16,{96 - width}] dot(x, w), {SUMS % (1, summed)}, phase={phase}"
    ).lowered["r"]
    return [step.name for step in made.supersteps]


def test_a_weight_lies_as_the_forward_pass_reads_it():
    assert "transpose" not in weight("forward")
    assert "transpose" in weight("backward")


@pytest.mark.parametrize(("left", "is_in_place"), [(1, True), (0, False)])
def test_right_operands_of_gradients_of_inputs_are_transposed_in_place(left, is_in_place):
    made = run(
        f"p = f16[48,64] parameter(0)\nq = f16[{48 + 16 * left},32] parameter(1)\n"
        f"x = f16[48,64] negate(p)\ny = f16[{48 + 16 * left},32] negate(q)\n"
        f"r = f16[{64 - 16 * left},32] dot(x, y), {SUMS % (left, 0)}, phase=backward"
    )
    dot = made.context.instructions["r"]
    operands = [made.placements[name][0] for name in ("x", "y")]
    right = transpositions(dot, operands, FILLED, made.context)[1]
    assert right.is_regrouped != is_in_place
    assert is_weight_gradient(dot, made.context) != is_in_place


def exchanged_by_heads(rows, phase="backward"):
    """Cycles of the exchanges of a product of heads that sums their scores across rows."""
    heads, batch = f"12,{rows}", "lhs_batch={0} rhs_batch={0}"
    made = run(
        f"p = f16[{heads},64] parameter(0)\nq = f16[{heads},64] parameter(1)\n"
        f"x = f16[{heads},64] negate(p)\ny = f16[{heads},64] negate(q)\n"
        f"s = f16[{heads},{rows}] dot(x, y), dot_dimension_numbers={{{batch} lhs_contracting={{2}} "
        f"rhs_contracting={{2}}}}\nr = f16[{heads},64] dot(s, x), dot_dimension_numbers={{{batch} "
        f"lhs_contracting={{1}} rhs_contracting={{1}}}}, phase={phase}",
        tiles=184,
    ).lowered["r"]
    assert made.supersteps[0].name == "transpose"
    return sum(step.exchange_cycles for step in made.supersteps if step.name == "multiply")


def test_what_moves_element_by_element_is_put_together_by_that_copy():
    assert exchanged_by_heads(197) <= exchanged_by_heads(200)


def test_operands_of_gradients_of_weights_are_copied_first():
    assert exchanged_by_heads(200, "backward") > exchanged_by_heads(200, "forward")


def head_transpositions(rows, read, summed, width=64):
    """Cycles of the transposition of heads, read from f16[16*rows,width], a product with a weight.

    Args:
        rows: Rows of each of 16 samples.
        read: Instructions that make `y`, f16[16,2,rows,width/2], from the product `x`.
        summed: The dimension of `y` that the product of heads sums.
        width: Columns of the product.
    """
    total, half = 16 * rows, width // 2
    kept = half if summed == _ROWS else rows
    sums = f"lhs_batch={{0,1}} rhs_batch={{0,1}} lhs_contracting={{{summed}}}"
    made = run(
        f"p = f16[{total},64] parameter(0)\nw = f16[64,{width}] parameter(1)\n"
        f"c = f16[16,2,{rows},{half}] parameter(2)\na = f16[{total},64] negate(p)\n"
        f"x = f16[{total},{width}] dot(a, w), {SUMS % (1, 0)}\n"
        f"{read.format(rows=rows, total=total, width=width, half=half)}"
        f"z = f16[16,2,{rows},{half}] negate(c)\n"
        f"r = f16[16,2,{kept},{kept}] dot(y, z), "
        f"dot_dimension_numbers={{{sums} rhs_contracting={{{summed}}}}}",
        tiles=64,
    ).lowered["r"]
    by_order = [step.compute_cycles for step in made.supersteps if step.name == "transpose"]
    return by_order[: len(by_order) - (summed == _ROWS)]  # `z` lies as its dimensions say.


_ROWS, _FEATURES = 2, 3
HEADS = (
    "h = f16[16,{rows},2,{half}] reshape(x)\n"
    "y = f16[16,2,{rows},{half}] transpose(h), dimensions={{0,2,1,3}}\n"
)
BIASED = (
    "v = f16[{width}] parameter(3)\nb = f16[{total},{width}] broadcast(v), dimensions={{1}}\n"
    "s = f16[{total},{width}] add(x, b)\nh = f16[16,{rows},2,{half}] reshape(s)\n"
    "y = f16[16,2,{rows},{half}] transpose(h), dimensions={{0,2,1,3}}\n"
)


@pytest.mark.parametrize("read", [HEADS, BIASED])
def test_heads_whose_features_are_summed_are_transposed(read):
    even, odd = (head_transpositions(rows, read, _FEATURES) for rows in (48, 49))
    assert len(even) == len(odd) == 1
    assert odd[0] > 4 * even[0]


def test_heads_whose_rows_are_summed_stay_if_these_begin_groups():
    assert head_transpositions(48, HEADS, _ROWS) == []
    assert len(head_transpositions(49, HEADS, _ROWS)) == 1


BY_COLUMNS = "lhs_batch={0} rhs_batch={0} lhs_contracting={2} rhs_contracting={2}"
SCORES = f"dot_dimension_numbers={{{BY_COLUMNS}}}"


@pytest.mark.parametrize("rows", [48, 49])
def test_scores_lie_in_groups_of_rows_of_which_the_last_may_be_smaller(rows):
    """They are summed along their columns, and transposed before."""
    made = run(
        f"p = f16[12,{rows},64] parameter(0)\nq = f16[12,{rows},64] parameter(1)\n"
        f"v = f16[12,64,{rows}] parameter(2)\na = f16[12,{rows},64] negate(p)\n"
        f"b = f16[12,{rows},64] negate(q)\nc = f16[12,64,{rows}] negate(v)\n"
        f"s = f16[12,{rows},{rows}] dot(a, b), {SCORES}\n"
        f"e = f16[12,{rows},{rows}] exponential(s)\n"
        f"r = f16[12,{rows},64] dot(e, c), {SCORES}",
        tiles=64,
    ).lowered["r"]
    assert sum(step.name == "transpose" for step in made.supersteps) == 1


def test_scores_that_are_summed_along_their_rows_stay():
    """Their groups of rows begin with the first row of each head, however many rows it has."""
    sums = "lhs_batch={0} rhs_batch={0} lhs_contracting={1} rhs_contracting={2}"
    made = run(
        "p = f16[12,49,64] parameter(0)\nq = f16[12,49,64] parameter(1)\n"
        "v = f16[12,64,49] parameter(2)\na = f16[12,49,64] negate(p)\n"
        "b = f16[12,49,64] negate(q)\nc = f16[12,64,49] negate(v)\n"
        f"s = f16[12,49,49] dot(a, b), {SCORES}\n"
        f"r = f16[12,49,64] dot(s, c), dot_dimension_numbers={{{sums}}}",
        tiles=64,
    ).lowered["r"]
    assert "transpose" not in [step.name for step in made.supersteps]


def test_a_sum_of_two_products_lies_as_its_dimensions_say():
    made = run(
        "p = f16[48,64] parameter(0)\nw = f16[64,64] parameter(1)\na = f16[48,64] negate(p)\n"
        f"x = f16[48,64] dot(a, w), {SUMS % (1, 0)}\ns = f16[48,64] add(a, x)\n"
        f"r = f16[48,64] dot(s, w), {SUMS % (1, 0)}"
    ).lowered["r"]
    assert "transpose" not in [step.name for step in made.supersteps]


def test_transposed_copies_take_memory_while_the_products_run():
    made = run(
        "p = f16[64,48] parameter(0)\nq = f16[64,48] parameter(1)\n"
        "x = f16[64,48] negate(p)\ny = f16[64,48] negate(q)\n"
        f"r = f16[48,48] dot(x, y), {SUMS % (0, 0)}, phase=backward"
    )
    copies = [made.placements[name][0].footprint for name in ("x", "y")]
    assert list(made.lowered["r"].scratch[-2:]) == copies
