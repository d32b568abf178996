"""Operands in another order than the result are transposed; a dropout's mask has one place."""

import pytest

from tests.compiler.lowering.programs import run

PRODUCT = (
    "p = f16[8,{rows},64] parameter(0)\nw = f16[64,48] parameter(1)\n"
    "a = f16[8,{rows},64] negate(p)\ny = f16[8,{rows},48] dot(a, w), "
    "dot_dimension_numbers={{lhs_contracting={{2}} rhs_contracting={{0}}}}\n"
    "q = f16[8,{rows},48] parameter(2)\n"
)
"""`y` lies in groups of 8 or 16 rows, `q` as its dimensions say."""


def transposed(text, name, rows, phase="forward"):
    """Cycles of the transpositions before an instruction that follows a product."""
    made = run(f"{PRODUCT}{text}, phase={phase}".format(rows=rows), tiles=64).lowered[name]
    return [step.compute_cycles for step in made.supersteps if step.name == "transpose"]


def test_a_sum_of_two_orders_transposes_one_operand():
    assert (
        len(transposed("x = f16[8,{rows},48] negate(q)\ns = f16[8,{rows},48] add(x, y)", "s", 48))
        == 1
    )


def test_groups_that_do_not_divide_the_rows_of_a_sample_move_element_by_element():
    text = "x = f16[8,{rows},48] negate(q)\ns = f16[8,{rows},48] add(x, y)"
    even, odd = (transposed(text, "s", rows)[0] for rows in (48, 49))
    assert odd > 10 * even


def test_operands_of_one_order_stay():
    text = "z = f16[8,{rows},48] exponential(y)\ns = f16[8,{rows},48] add(z, y)"
    assert transposed(text, "s", 48) == []


def test_what_is_of_one_order_keeps_it():
    text = (
        "z = f16[8,{rows},48] exponential(y)\nt = f16[8,{rows},48] add(z, y)\n"
        "x = f16[8,{rows},48] negate(q)\ns = f16[8,{rows},48] subtract(x, t)"
    )
    assert len(transposed(text, "s", 48)) == 1


@pytest.mark.parametrize(("phase", "count"), [("forward", 1), ("backward", 0)])
def test_variables_lie_as_the_backward_pass_writes_them(phase, count):
    assert len(transposed("s = f16[8,{rows},48] add(q, y)", "s", 48, phase)) == count


def dropouts(gradient):
    """Lowers a dropout of the product, and one of a gradient with the same mask.

    Args:
        gradient: The name of the gradient.
    """
    return run(
        PRODUCT.format(rows=49)
        + "k = u64[3] parameter(3)\nx = f16[8,49,48] negate(q)\n"
        + f"d = f16[8,49,48] dropout(y, k)\ne = f16[8,49,48] dropout({gradient}, k)",
        tiles=64,
    )


def test_the_gradient_of_a_dropout_is_brought_where_its_mask_is_drawn():
    program = dropouts("x")
    assert program.placements["e"] == program.placements["d"] != program.placements["x"]
    assert [step.name for step in program.lowered["e"].supersteps] == ["transpose", "dropout"]
    assert program.exchange_bytes("e") > program.exchange_bytes("d")


def test_a_gradient_that_lies_like_the_mask_stays():
    program = dropouts("y")
    assert program.cycles("e") == program.cycles("d")


def test_other_masks_lie_like_their_own_elements():
    program = run(
        PRODUCT.format(rows=49)
        + "k = u64[3] parameter(3)\nl = u64[3] parameter(4)\nx = f16[8,49,48] negate(q)\n"
        + "d = f16[8,49,48] dropout(y, k)\ne = f16[8,49,48] dropout(x, l)",
        tiles=64,
    )
    assert program.placements["e"] == program.placements["x"]


NORM = """apply {
a = f16[8,49,48] parameter(0)
g = f16[8,49,48] parameter(1)
ROOT r = f16[8,49,48] add(a, g)
}
"""


@pytest.mark.parametrize(("x", "count"), [("x", 1), ("y", 0)])
def test_norms_bring_their_gradient_into_the_order_of_the_activations(x, count):
    """As matrices: groups of 8 of all rows, though none divides the 49 of a sample."""
    made = run(
        PRODUCT.format(rows=49)
        + f"x = f16[8,49,48] negate(q)\nn = f16[8,49,48] norm-apply({x}, y), calls={{apply}}, "
        "kept_dimensions={0,1}",
        before=NORM,
        tiles=64,
    ).lowered["n"]
    cycles = [step.compute_cycles for step in made.supersteps if step.name == "transpose"]
    text = "x = f16[8,{rows},48] negate(q)\ns = f16[8,{rows},48] add(x, y)"
    assert len(cycles) == count
    assert all(10 * each < transposed(text, "s", 49)[0] for each in cycles)


def test_the_transposed_copy_takes_memory_while_its_reader_runs():
    program = run(
        PRODUCT.format(rows=48) + "x = f16[8,48,48] negate(q)\ns = f16[8,48,48] add(x, y)\n"
        "k = u64[3] parameter(3)\nd = f16[8,48,48] dropout(x, k)\ne = f16[8,48,48] dropout(y, k)",
        tiles=64,
    )
    (copy,) = program.placements["y"]
    for name in ("s", "e"):
        assert program.lowered[name].scratch == (copy.footprint,)
    assert program.lowered["d"].scratch == ()
