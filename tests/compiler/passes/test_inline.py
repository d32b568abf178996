"""Calls are replaced by what they call."""

from ipu_tf.compiler.hlo import parse, verify
from ipu_tf.compiler.passes import inline
from tests.compiler.passes.before_after import check

DOUBLE = """
double {
  p = f32[2] parameter(0)
  ROOT q = f32[2] add(p, p)
}
"""


def test_the_only_call_keeps_the_names():
    check(
        inline.run,
        DOUBLE
        + """
        ENTRY main {
          x = f32[2] parameter(0)
          y = f32[2] call(x), calls={double}
          ROOT z = f32[2] negate(y)
        }
        """,
        """
        ENTRY main {
          x = f32[2] parameter(0)
          q = f32[2] add(x, x)
          ROOT z = f32[2] negate(q)
        }
        """,
    )


def test_every_other_call_has_names_of_its_own():
    check(
        inline.run,
        DOUBLE
        + """
        ENTRY main {
          x = f32[2] parameter(0)
          y = f32[2] call(x), calls={double}
          ROOT z = f32[2] call(y), calls={double}
        }
        """,
        """
        ENTRY main {
          x = f32[2] parameter(0)
          q.i0 = f32[2] add(x, x)
          ROOT q.i1 = f32[2] add(q.i0, q.i0)
        }
        """,
    )


def test_calls_in_calls_and_in_conditions():
    module = inline.run(
        parse(
            DOUBLE
            + """
            twice {
              a = f32[2] parameter(0)
              b = f32[2] call(a), calls={double}
              ROOT c = f32[2] call(b), calls={double}
            }
            body {
              s = (f32[2]) parameter(0)
              e = f32[2] get-tuple-element(s), tuple_index=0
              t = f32[2] call(e), calls={twice}
              ROOT u = (f32[2]) tuple(t)
            }
            condition {
              v = (f32[2]) parameter(0)
              ROOT k = pred[] constant(true)
            }
            ENTRY main {
              x = (f32[2]) parameter(0)
              ROOT w = (f32[2]) while(x), calls={body, condition}
            }
            """
        )
    )
    verify(module)
    assert list(module.computations) == ["body", "condition", "main"]
    assert [i.opcode for i in module.computations["body"]] == [
        "parameter",
        "get-tuple-element",
        "add",
        "add",
        "tuple",
    ]
