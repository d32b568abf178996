"""The pass removes instructions without readers and keeps those with effects."""

from ipu_tf.compiler.passes import dead_code
from tests.compiler.passes.before_after import check


def test_unused_instructions_and_computations_go():
    check(
        dead_code.run,
        """
        sum {
          a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] add(a, b)
        }
        ENTRY main {
          x = f32[2] parameter(0)
          unused = f32[2] parameter(1)
          zero = f32[] constant(0.0)
          total = f32[] reduce(x, zero), calls={sum}, dimensions={0}
          minus = f32[2] negate(x)
          ROOT z = f32[2] tanh(x)
        }
        """,
        """
        ENTRY main {
          x = f32[2] parameter(0)
          unused = f32[2] parameter(1)
          ROOT z = f32[2] tanh(x)
        }
        """,
    )


def test_effects_stay_wherever_they_are():
    text = """
    body {
      s = (f32[2]) parameter(0)
      e = f32[2] get-tuple-element(s), tuple_index=0
      p = () host-call(e)
      ROOT u = (f32[2]) tuple(e)
    }
    condition {
      v = (f32[2]) parameter(0)
      ROOT k = pred[] constant(false)
    }
    ENTRY main {
      x = f32[2] parameter(0)
      t = (f32[2]) tuple(x)
      w = (f32[2]) while(t), calls={body, condition}
      n = f32[2] infeed()
      ROOT z = f32[2] tanh(x)
    }
    """
    check(dead_code.run, text, text)
