"""Equal things are computed once; what only looks equal is not."""

import pytest

from ipu_tf.compiler.passes import common_subexpressions
from tests.compiler.passes.before_after import check


def test_equal_instructions_and_functions_become_one():
    check(
        common_subexpressions.run,
        """
        sum {
          a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] add(a, b)
        }
        sum_too {
          d = f32[] parameter(0)
          e = f32[] parameter(1)
          ROOT f = f32[] add(d, e)
        }
        ENTRY main {
          x = f32[2] parameter(0)
          zero = f32[] constant(0.0)
          nought = f32[] constant(0.0)
          one = f32[] reduce(x, zero), calls={sum}, dimensions={0}
          two = f32[] reduce(x, nought), calls={sum_too}, dimensions={0}
          ROOT z = f32[] add(one, two)
        }
        """,
        """
        sum {
          a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] add(a, b)
        }
        ENTRY main {
          x = f32[2] parameter(0)
          zero = f32[] constant(0.0)
          one = f32[] reduce(x, zero), calls={sum}, dimensions={0}
          ROOT z = f32[] add(one, one)
        }
        """,
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("f32[] constant(0.0)", "f32[] constant(-0.0)"),
        ("s32[] constant(0)", "f32[] constant(0.0)"),
        ("f32[2] parameter(0)", "f32[2] parameter(1)"),
        ("f32[2] infeed()", "f32[2] infeed()"),
        ("u32[2] rng-bit-generator()", "u32[2] rng-bit-generator()"),
        ("s32[2,2] iota(), dimensions={0}", "s32[2,2] iota(), dimensions={1}"),
    ],
)
def test_what_differs_stays(first, second):
    types = ", ".join(text.split()[0] for text in (first, second))
    text = f"ENTRY main {{\n a = {first}\n b = {second}\n ROOT t = ({types}) tuple(a, b)\n}}"
    check(common_subexpressions.run, text, text)
