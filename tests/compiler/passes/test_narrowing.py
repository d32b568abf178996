"""float64 becomes float32, in loops and branches, too."""

import pytest

from ipu_tf.compiler.passes import narrowing
from tests.compiler.passes.before_after import check, entry


def narrowed(before, after, others_before="", others_after=""):
    check(narrowing.run, entry(before, others_before), entry(after, others_after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a = f64[] constant(0.5)", "a = f32[] constant(0.5)"),
        ("a = f64[] constant(1e300)", "a = f32[] constant(inf)"),
        ("a = f64[300] constant()", "a = f32[300] constant()"),
        (
            "x = f32[4] parameter(0)\n y = f64[4] convert(x)\n z = f64[4] add(y, y)\n"
            "w = f32[4] convert(z)",
            "x = f32[4] parameter(0)\n z = f32[4] add(x, x)",
        ),
        (
            "x = u64[4] parameter(0)\n y = f64[4] bitcast-convert(x)\n z = f64[4] add(y, y)",
            "x = u64[4] parameter(0)\n y = f32[4] convert(x)\n z = f32[4] add(y, y)",
        ),
        (
            "x = f16[4] parameter(0)\n y = f64[4] convert(x)",
            "x = f16[4] parameter(0)\n y = f32[4] convert(x)",
        ),
        ("x = s64[4] parameter(0)\n y = f32[4] convert(x)",) * 2,
    ],
)
def test_values(before, after):
    narrowed(before, after)


LOOP = """
body {{
  s = (s32[], {0}[2]) parameter(0)
  i = s32[] get-tuple-element(s), tuple_index=0
  v = {0}[2] get-tuple-element(s), tuple_index=1
  w = {0}[2] tanh(v)
  ROOT r = (s32[], {0}[2]) tuple(i, w)
}}
condition {{
  t = (s32[], {0}[2]) parameter(0)
  j = s32[] get-tuple-element(t), tuple_index=0
  ten = s32[] constant(10)
  ROOT q = pred[] compare(j, ten), comparison_direction=LT
}}
"""
CALL = """
x = {0}[2] parameter(0)
zero = s32[] constant(0)
state = (s32[], {0}[2]) tuple(zero, x)
ROOT end = (s32[], {0}[2]) while(state), computations={{body, condition}}
"""


def test_what_loops_carry():
    narrowed(CALL.format("f64"), CALL.format("f32"), LOOP.format("f64"), LOOP.format("f32"))
