"""Operands whose summed dimension is not innermost in memory are transposed before the products."""

import pytest

from tests.compiler.lowering.programs import run

SUMS = "dot_dimension_numbers={lhs_contracting={%d} rhs_contracting={%d}}"


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


def test_rows_that_no_block_divides_move_one_by_one():
    even, odd = (transposed_cycles(rows, 64, 0, 1)[0] for rows in (196, 197))
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


def exchanged_by_heads(rows):
    """Cycles of the exchanges of a product of heads that sums their scores across rows."""
    heads, batch = f"12,{rows}", "lhs_batch={0} rhs_batch={0}"
    made = run(
        f"p = f16[{heads},64] parameter(0)\nq = f16[{heads},64] parameter(1)\n"
        f"x = f16[{heads},64] negate(p)\ny = f16[{heads},64] negate(q)\n"
        f"s = f16[{heads},{rows}] dot(x, y), dot_dimension_numbers={{{batch} lhs_contracting={{2}} "
        f"rhs_contracting={{2}}}}\nr = f16[{heads},64] dot(s, x), dot_dimension_numbers={{{batch} "
        "lhs_contracting={1} rhs_contracting={1}}, phase=backward",
        tiles=184,
    ).lowered["r"]
    assert [step.name for step in made.supersteps][:2] == ["transpose", "transpose"]
    return sum(step.exchange_cycles for step in made.supersteps)


def test_what_moves_element_by_element_is_put_together_by_that_copy():
    assert exchanged_by_heads(197) <= exchanged_by_heads(200)
