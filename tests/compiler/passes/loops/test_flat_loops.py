"""States of loops become tuples of arrays."""

from ipu_tf.compiler.hlo import parse, to_text, verify
from ipu_tf.compiler.passes import dead_code, identities
from ipu_tf.compiler.passes.loops import flat_loops
from tests.compiler.passes.before_after import check

NESTED = """
body {
  s = (s32[], (f32[3], s32[]), ()) parameter(0)
  i = s32[] get-tuple-element(s), tuple_index=0
  list = (f32[3], s32[]) get-tuple-element(s), tuple_index=1
  none = () get-tuple-element(s), tuple_index=2
  v = f32[3] get-tuple-element(list), tuple_index=0
  w = f32[3] tanh(v)
  new = (f32[3], s32[]) tuple(w, i)
  ROOT r = (s32[], (f32[3], s32[]), ()) tuple(i, new, none)
}
condition {
  c = (s32[], (f32[3], s32[]), ()) parameter(0)
  length = (f32[3], s32[]) get-tuple-element(c), tuple_index=1
  n = s32[] get-tuple-element(length), tuple_index=1
  j = s32[] get-tuple-element(c), tuple_index=0
  ROOT q = pred[] compare(j, n), comparison_direction="LT"
}
ENTRY main {
  x = f32[3] parameter(0)
  k = s32[] constant(2)
  first = (f32[3], s32[]) tuple(x, k)
  none0 = () tuple()
  t = (s32[], (f32[3], s32[]), ()) tuple(k, first, none0)
  z = (s32[], (f32[3], s32[]), ()) while(t), calls={body, condition}, trip_count=2
  last = (f32[3], s32[]) get-tuple-element(z), tuple_index=1
  ROOT y = f32[3] get-tuple-element(last), tuple_index=0
}
"""


def test_tuples_in_a_state_become_its_arrays():
    check(
        lambda module: dead_code.run(identities.run(flat_loops.run(module))),
        NESTED,
        """
        body {
          s = (s32[], f32[3], s32[]) parameter(0)
          s.part0 = s32[] get-tuple-element(s), tuple_index=0
          s.part1 = f32[3] get-tuple-element(s), tuple_index=1
          w = f32[3] tanh(s.part1)
          ROOT r.flat = (s32[], f32[3], s32[]) tuple(s.part0, w, s.part0)
        }
        condition {
          c = (s32[], f32[3], s32[]) parameter(0)
          c.part0 = s32[] get-tuple-element(c), tuple_index=0
          c.part2 = s32[] get-tuple-element(c), tuple_index=2
          ROOT q = pred[] compare(c.part0, c.part2), comparison_direction="LT"
        }
        ENTRY main {
          x = f32[3] parameter(0)
          k = s32[] constant(2)
          z.initial = (s32[], f32[3], s32[]) tuple(k, x, k)
          z = (s32[], f32[3], s32[]) while(z.initial), calls={body, condition}, trip_count=2
          ROOT z.part1 = f32[3] get-tuple-element(z), tuple_index=1
        }
        """,
    )


def test_what_uses_a_whole_state_gets_it_as_it_was():
    text = NESTED.replace("ROOT y", "y").replace("  z =", "  ROOT z =")
    module = flat_loops.run(parse(text))
    verify(module)
    assert (
        str(module.entry_computation.by_name()["z.nested"].type) == "(s32[], (f32[3], s32[]), ())"
    )
    assert module.entry_computation.root == "z.nested"


def test_other_modules_stay():
    flat = to_text(flat_loops.run(parse(NESTED)))
    assert to_text(flat_loops.run(parse(flat))) == flat
