"""Broadcasts that a loop slices enter the loop."""

import pytest

from ipu_tf.compiler.passes import sunk_broadcasts
from tests.compiler.passes.before_after import check


def loop(top="top", sizes="1,4", extra="", kept="stack", rows="{1}", source="x"):
    return f"""
    body {{
      s = (f32[4], f32[7,4]) parameter(0)
      d = f32[4] get-tuple-element(s), tuple_index=0
      stack = f32[7,4] get-tuple-element(s), tuple_index=1
      zero = s32[] constant(0)
      top = f32[{sizes}] dynamic-slice(stack, zero, zero), dynamic_slice_sizes={{{sizes}}}
      row = f32[4] reshape({top})
      e = f32[4] multiply(d, row)
      {extra}
      ROOT r = (f32[4], f32[7,4]) tuple(e, {kept})
    }}
    condition {{
      c = (f32[4], f32[7,4]) parameter(0)
      ROOT q = pred[] constant(true)
    }}
    ENTRY main {{
      x = f32[4] parameter(0)
      y = f32[7] parameter(1)
      b = f32[7,4] broadcast({source}), dimensions={rows}
      t = (f32[4], f32[7,4]) tuple(x, b)
      z = (f32[4], f32[7,4]) while(t), calls={{body, condition}}
      g = f32[4] get-tuple-element(z), tuple_index=0
      after = f32[7,4] get-tuple-element(z), tuple_index=1
      ROOT all = (f32[4], f32[7,4]) tuple(g, after)
    }}
    """


def test_a_broadcast_that_is_sliced():
    check(
        sunk_broadcasts.run,
        loop(),
        """
        body {
          s = (f32[4], f32[4]) parameter(0)
          d = f32[4] get-tuple-element(s), tuple_index=0
          stack.source = f32[4] get-tuple-element(s), tuple_index=1
          e = f32[4] multiply(d, stack.source)
          ROOT r = (f32[4], f32[4]) tuple(e, stack.source)
        }
        condition {
          c = (f32[4], f32[4]) parameter(0)
          ROOT q = pred[] constant(true)
        }
        ENTRY main {
          x = f32[4] parameter(0)
          y = f32[7] parameter(1)
          b = f32[7,4] broadcast(x), dimensions={1}
          t = (f32[4], f32[4]) tuple(x, x)
          z = (f32[4], f32[4]) while(t), calls={body, condition}
          g = f32[4] get-tuple-element(z), tuple_index=0
          ROOT all = (f32[4], f32[7,4]) tuple(g, b)
        }
        """,
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"sizes": "2,2"},  # Slices of two columns differ.
        {"rows": "{0}", "source": "y"},  # The rows differ.
        {"extra": "more = f32[7,4] negate(stack)", "kept": "more"},  # It changes.
        {"extra": "more = f32[7,4] negate(stack)\n more2 = f32[7,4] outfeed(more)"},
    ],
)
def test_others_stay_outside(changed):
    text = loop(**changed)
    check(sunk_broadcasts.run, text, text)


def test_a_broadcast_that_the_condition_reads_stays_outside():
    text = loop().replace(
        "ROOT q = pred[] constant(true)",
        "read = f32[7,4] get-tuple-element(c), tuple_index=1\n ROOT q = pred[] constant(true)",
    )
    check(sunk_broadcasts.run, text, text)
