"""Loops hold what is needed after them, in them and for their effects."""

from ipu_tf.compiler.passes.loops import dead_loop_parts
from tests.compiler.passes.before_after import check


def loop(extra=""):
    """A loop over a counter, a value, a scale of the value, and two that only need each other."""
    return f"""
    body {{
      s = (s32[], f32[4], f32[4], f32[4], f32[4]) parameter(0)
      i = s32[] get-tuple-element(s), tuple_index=0
      stack = f32[4] get-tuple-element(s), tuple_index=1
      other = f32[4] get-tuple-element(s), tuple_index=2
      scale = f32[4] get-tuple-element(s), tuple_index=3
      v = f32[4] get-tuple-element(s), tuple_index=4
      one = s32[] constant(1)
      j = s32[] add(i, one)
      w = f32[4] multiply(v, scale)
      new = f32[4] add(other, v)
      {extra}
      ROOT r = (s32[], f32[4], f32[4], f32[4], f32[4]) tuple(j, new, stack, scale, w)
    }}
    condition {{
      c = (s32[], f32[4], f32[4], f32[4], f32[4]) parameter(0)
      ci = s32[] get-tuple-element(c), tuple_index=0
      n = s32[] constant(7)
      ROOT q = pred[] compare(ci, n), comparison_direction="LT"
    }}
    ENTRY main {{
      x = f32[4] parameter(0)
      y = f32[4] parameter(1)
      a = s32[] constant(0)
      t = (s32[], f32[4], f32[4], f32[4], f32[4]) tuple(a, x, x, y, x)
      z = (s32[], f32[4], f32[4], f32[4], f32[4]) while(t), calls={{body, condition}}, trip_count=7
      ROOT g = f32[4] get-tuple-element(z), tuple_index=4
    }}
    """


def test_parts_that_only_need_each_other_go():
    check(
        dead_loop_parts.run,
        loop(),
        """
        body {
          s = (s32[], f32[4], f32[4]) parameter(0)
          i = s32[] get-tuple-element(s), tuple_index=0
          scale = f32[4] get-tuple-element(s), tuple_index=1
          v = f32[4] get-tuple-element(s), tuple_index=2
          one = s32[] constant(1)
          j = s32[] add(i, one)
          w = f32[4] multiply(v, scale)
          ROOT r = (s32[], f32[4], f32[4]) tuple(j, scale, w)
        }
        condition {
          c = (s32[], f32[4], f32[4]) parameter(0)
          ci = s32[] get-tuple-element(c), tuple_index=0
          n = s32[] constant(7)
          ROOT q = pred[] compare(ci, n), comparison_direction="LT"
        }
        ENTRY main {
          x = f32[4] parameter(0)
          y = f32[4] parameter(1)
          a = s32[] constant(0)
          t = (s32[], f32[4], f32[4]) tuple(a, y, x)
          z = (s32[], f32[4], f32[4]) while(t), calls={body, condition}, trip_count=7
          ROOT g = f32[4] get-tuple-element(z), tuple_index=2
        }
        """,
    )


def test_what_an_effect_needs_stays():
    text = loop(extra="told = () host-call(stack)")
    check(dead_loop_parts.run, text, text)


def test_a_loop_that_is_used_whole_stays():
    text = loop().replace("  z =", "  ROOT z =").replace("ROOT g", "g")
    check(dead_loop_parts.run, text, text)
