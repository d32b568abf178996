"""Instructions that change nothing go, chains of views become one."""

import pytest

from ipu_tf.compiler.passes import dead_code, identities
from tests.compiler.passes.before_after import check


def run(module):
    return dead_code.run(identities.run(module))


def simplified(before, after):
    parameters = (
        "x = f32[4,2] parameter(0)\n y = f32[4,2] parameter(1)\n p = pred[4,2] parameter(2)"
    )
    check(
        run,
        f"ENTRY main {{\n{parameters}\n{before}\n}}",
        f"ENTRY main {{\n{parameters}\n{after}\n}}",
    )


ONE = "one = f32[] constant(1.0)\n ones = f32[4,2] broadcast(one), dimensions={}\n"
ZERO = "zero = f32[] constant(0.0)\n zeros = f32[4,2] broadcast(zero), dimensions={}\n"


@pytest.mark.parametrize(
    "identity",
    [
        "a = f32[4,2] copy(x)",
        "a = f32[4,2] reshape(x)",
        "a = f32[4,2] convert(x)",
        "a = f32[4,2] transpose(x), dimensions={0,1}",
        "a = f32[4,2] broadcast(x), dimensions={0,1}",
        "a = f32[4,2] slice(x), slice_dimensions={[0:4:1], [0:2:1]}",
        "a = f32[4,2] concatenate(x), dimensions={0}",
        f"{ZERO} a = f32[4,2] pad(x, zero), padding_config=0_0_0x0_0_0",
        f"{ONE} a = f32[4,2] multiply(x, ones)",
        f"{ONE} a = f32[4,2] multiply(ones, x)",
        f"{ONE} a = f32[4,2] power(x, ones)",
        f"{ONE} a = f32[4,2] divide(x, ones)",
        f"{ZERO} a = f32[4,2] subtract(x, zeros)",
        "a = f32[4,2] select(p, x, x)",
        "t = (f32[4,2], f32[4,2]) tuple(y, x)\n a = f32[4,2] get-tuple-element(t), tuple_index=1",
        "k = pred[] constant(true)\n b = pred[4,2] broadcast(k), dimensions={}\n"
        " a = f32[4,2] select(b, x, y)",
        "v = f32[8] reshape(x)\n a = f32[4,2] reshape(v)",
        "v = f32[2,4] transpose(x), dimensions={1,0}\n a = f32[4,2] transpose(v), dimensions={1,0}",
    ],
)
def test_identities_go(identity):
    simplified(f"{identity}\n ROOT z = f32[4,2] tanh(a)", "ROOT z = f32[4,2] tanh(x)")


@pytest.mark.parametrize(
    "kept",
    [
        f"{ONE} ROOT a = f32[4,2] divide(ones, x)",
        f"{ZERO} ROOT a = f32[4,2] subtract(zeros, x)",
        # -0 + 0 is +0.
        f"{ZERO} ROOT a = f32[4,2] add(x, zeros)",
        "ROOT a = f32[2,4] transpose(x), dimensions={1,0}",
        "ROOT a = f32[4,2] reverse(x), dimensions={0}",
        "ROOT a = f16[4,2] convert(x)",
        "ROOT a = f32[4,4] concatenate(x, x), dimensions={1}",
    ],
)
def test_what_changes_something_stays(kept):
    simplified(kept, kept)


def test_chains_of_views_become_one():
    simplified(
        "v = f32[8] reshape(x)\n ROOT w = f32[2,2,2] reshape(v)",
        "ROOT w = f32[2,2,2] reshape(x)",
    )
    simplified(
        "r = f32[2,2,2] reshape(x)\n v = f32[2,2,2] transpose(r), dimensions={1,2,0}\n"
        " ROOT w = f32[2,2,2] transpose(v), dimensions={1,2,0}",
        "r = f32[2,2,2] reshape(x)\n ROOT w = f32[2,2,2] transpose(r), dimensions={2,0,1}",
    )


@pytest.mark.parametrize(
    ("opcode", "constant", "result"),
    [("and", "true", "p"), ("or", "false", "p"), ("and", "false", "b"), ("or", "true", "b")],
)
def test_truth_values(opcode, constant, result):
    b = f"k = pred[] constant({constant})\n b = pred[4,2] broadcast(k), dimensions={{}}\n"
    kept = b if result == "b" else ""
    simplified(
        f"{b} a = pred[4,2] {opcode}(b, p)\n ROOT z = pred[4,2] not(a)",
        f"{kept} ROOT z = pred[4,2] not({result})",
    )


def test_bits_are_no_truth_values():
    text = "k = s32[2] constant({1, 1})\n ROOT a = s32[2] and(k, k)"
    simplified(text, text)


def test_reversing_one_element():
    check(
        run,
        "ENTRY main {\n x = f32[1,2] parameter(0)\n a = f32[1,2] reverse(x), dimensions={0}\n"
        " ROOT z = f32[1,2] tanh(a)\n}",
        "ENTRY main {\n x = f32[1,2] parameter(0)\n ROOT z = f32[1,2] tanh(x)\n}",
    )


def test_squares_are_products():
    simplified(
        "two = f32[] constant(2.0)\n twos = f32[4,2] broadcast(two), dimensions={}\n"
        " ROOT a = f32[4,2] power(x, twos)",
        "ROOT a = f32[4,2] multiply(x, x)",
    )
