"""Powers by small whole numbers become products."""

import pytest

from ipu_tf.compiler.hlo import parse
from ipu_tf.compiler.passes.recognition import powers
from tests.compiler.passes.before_after import check, entry

BASE = (
    " x = f16[8] parameter(0)\n n = f16[] constant({})\n ns = f16[8] broadcast(n), dimensions={{}}"
)


def powered(exponent, *products):
    before = f"{BASE.format(exponent)}\n ROOT r = f16[8] power(x, ns)"
    check(powers.run, entry(before), entry("\n".join([BASE.format(exponent), *products])))


def test_a_cube_is_a_square_and_a_product():
    powered("3.0", " r.1 = f16[8] multiply(x, x)", " ROOT r = f16[8] multiply(r.1, x)")


def test_squares_of_squares():
    powered(
        "6.0",
        " r.1 = f16[8] multiply(x, x)",
        " r.2 = f16[8] multiply(r.1, x)",
        " ROOT r = f16[8] multiply(r.2, r.2)",
    )


@pytest.mark.parametrize("exponent", ["1.5", "9.0", "-3.0"])
def test_other_powers_stay(exponent):
    powered(exponent, " ROOT r = f16[8] power(x, ns)")


@pytest.mark.parametrize("exponent", range(3, 9))
def test_the_products_are_the_power(exponent):
    body = f"{BASE.format(float(exponent))}\n ROOT r = f16[8] power(x, ns)"
    degrees = {"x": 1}
    for instruction in powers.run(parse(entry(body))).entry_computation:
        if instruction.opcode == "multiply":
            degrees[instruction.name] = sum(degrees[name] for name in instruction.operands)
    assert degrees["r"] == exponent
