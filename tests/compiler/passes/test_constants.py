"""The pass computes values of small constants as XLA does."""

import numpy as np
import pytest

from ipu_tf.compiler.hlo import parse
from ipu_tf.compiler.passes import constants, dead_code
from tests.compiler.passes.before_after import check


def folded(lines):
    module = parse(f"ENTRY main {{\n{lines}\n}}")
    root = constants.run(module).entry_computation.instructions[-1]
    assert root.opcode == "constant", "nothing was folded"
    value = root.attributes["literal"]
    assert value.shape == root.type.dims
    return value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("s32[2] add(i, j)", [9, -4]),
        ("s32[2] divide(i, j)", [3, -2]),
        ("s32[2] divide(i, o)", [-1, -1]),
        ("s32[2] remainder(i, j)", [1, -1]),
        ("s32[2] remainder(i, o)", [7, -7]),
        ("s32[2] maximum(i, j)", [7, 3]),
        ("s32[2] shift(i, j)", None),
        ("pred[2] compare(i, j), comparison_direction=GE", [True, False]),
        ("f32[2] convert(i)", [7.0, -7.0]),
        ("s32[1] slice(i), slice_dimensions={[1:2:1]}", [-7]),
        ("s32[4] concatenate(i, j), dimensions={0}", [7, -7, 2, 3]),
        ("s32[2,1] reshape(i)", [[7], [-7]]),
        ("s32[2] select(p, i, j)", [7, 3]),
        ("pred[2] not(p)", [False, True]),
    ],
)
def test_values(expression, expected):
    lines = (
        "i = s32[2] constant({7, -7})\n j = s32[2] constant({2, 3})\n o = s32[2] constant({0, 0})\n"
        f" p = pred[2] constant({{true, false}})\n ROOT r = {expression}"
    )
    if expected is None:
        with pytest.raises(AssertionError, match="nothing was folded"):
            folded(lines)
    else:
        np.testing.assert_array_equal(folded(lines), expected)


def test_integers_wrap_and_floats_overflow():
    wrapped = "a = u32[] constant(4294967295)\n ROOT r = u32[] add(a, a)"
    assert folded(wrapped) == 4294967294
    large = "a = f16[] constant(6e4)\n ROOT r = f16[] add(a, a)"
    assert folded(large) == np.inf


def test_floats_are_computed_in_their_type():
    value = folded("a = f32[] constant(1e-8)\n b = f32[] constant(1.0)\n ROOT r = f32[] add(a, b)")
    assert value == np.float32(1.0)


def test_broadcasts_stay():
    text = """
    ENTRY main {
      x = f32[4] parameter(0)
      one = f32[] constant(1.0)
      ones = f32[4] broadcast(one), dimensions={}
      ROOT z = f32[4] add(x, ones)
    }
    """
    check(constants.run, text, text)


@pytest.mark.parametrize(
    "constant", ["bf16[] constant(1.0)", "f32[512] constant()"], ids=["no type", "large"]
)
def test_what_is_not_kept_is_not_folded(constant):
    type_ = constant.split()[0]
    text = f"ENTRY main {{\n a = {constant}\n ROOT r = {type_} negate(a)\n}}"
    check(constants.run, text, text)


def test_chains_fold_at_once():
    check(
        lambda module: dead_code.run(constants.run(module)),
        "ENTRY main {\n a = f32[] constant(4.0)\n b = f32[] sqrt(a)\n ROOT c = f32[] negate(b)\n}",
        "ENTRY main {\n ROOT c = f32[] constant(-2.0)\n}",
    )
