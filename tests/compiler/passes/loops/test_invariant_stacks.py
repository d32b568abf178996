"""Stacks of one value become that value; their loops' gradients keep it once."""

import pytest

from ipu_tf.compiler.hlo import parse, to_text, verify
from ipu_tf.compiler.passes.loops import invariant_stacks
from ipu_tf.compiler.passes.simplify import simplify
from tests.compiler.passes.before_after import check


def forward(row="kernel", *, op_type="TensorListPushBack", stack="stack", kept="k"):
    """A loop that pushes a row in each of seven iterations; `kernel` is `k` as one row."""
    return f"""
    body {{
      s = (s32[], f32[4], f32[7,4], f32[4]) parameter(0)
      i = s32[] get-tuple-element(s), tuple_index=0
      v = f32[4] get-tuple-element(s), tuple_index=1
      stack = f32[7,4] get-tuple-element(s), tuple_index=2
      k = f32[4] get-tuple-element(s), tuple_index=3
      one = s32[] constant(1)
      zero = s32[] constant(0)
      j = s32[] add(i, one)
      w = f32[4] multiply(v, k)
      kernel = f32[1,4] reshape(k)
      value = f32[1,4] reshape(v)
      half = f16[4] convert(k)
      whole = f32[4] convert(half)
      rounded = f32[1,4] reshape(whole)
      random = f32[1,4] rng(), distribution="uniform"
      push = f32[7,4] dynamic-update-slice({stack}, {row}, i, zero), op_type="{op_type}"
      ROOT r = (s32[], f32[4], f32[7,4], f32[4]) tuple(j, w, push, {kept})
    }}
    condition {{
      c = (s32[], f32[4], f32[7,4], f32[4]) parameter(0)
      ci = s32[] get-tuple-element(c), tuple_index=0
      n = s32[] constant(7)
      ROOT q = pred[] compare(ci, n), comparison_direction="LT"
    }}
    """


MAIN = """
    ENTRY main {
      x = f32[4] parameter(0)
      y = f32[4] parameter(1)
      a = s32[] constant(0)
      f = f32[] constant(0.0)
      empty = f32[7,4] broadcast(f), dimensions={}
      t = (s32[], f32[4], f32[7,4], f32[4]) tuple(a, x, empty, y)
      z = (s32[], f32[4], f32[7,4], f32[4]) while(t), calls={body, condition}
      filled = f32[7,4] get-tuple-element(z), tuple_index=2
      ROOT g = f32[7,4] negate(filled)
    }
"""
AFTER = """
    ENTRY main {
      x = f32[4] parameter(0)
      y = f32[4] parameter(1)
      a = s32[] constant(0)
      f = f32[] constant(0.0)
      empty = f32[7,4] broadcast(f), dimensions={}
      t = (s32[], f32[4], f32[7,4], f32[4]) tuple(a, x, empty, y)
      z = (s32[], f32[4], f32[7,4], f32[4]) while(t), calls={body, condition}
      COPIES
      z.stack2.row = f32[4] reshape(ROW), op_type="TensorListPushBack"
      z.stack2 = f32[7,4] broadcast(z.stack2.row), dimensions={1}, op_type="TensorListPushBack"
      ROOT g = f32[7,4] negate(z.stack2)
    }
"""


def test_a_stack_of_what_the_loop_keeps_is_a_broadcast():
    copies = "z.kernel = f32[1,4] reshape(y)"
    after = AFTER.replace("COPIES", copies).replace("ROW", "z.kernel")
    check(invariant_stacks.run, forward() + MAIN, forward() + after)


def test_so_is_one_of_what_is_computed_of_it():
    copies = """z.half = f16[4] convert(y)
      z.whole = f32[4] convert(z.half)
      z.rounded = f32[1,4] reshape(z.whole)"""
    after = AFTER.replace("COPIES", copies).replace("ROW", "z.rounded")
    check(invariant_stacks.run, forward("rounded") + MAIN, forward("rounded") + after)


@pytest.mark.parametrize(
    "changed",
    [
        {"row": "value"},
        {"row": "random"},
        {"op_type": "TensorListSetItem"},
        {"kept": "w"},
    ],
)
def test_other_stacks_stay(changed):
    text = forward(**changed) + MAIN
    check(invariant_stacks.run, text, text)


def test_a_stack_that_the_loop_reads_stays():
    read = "w = f32[4] multiply(v, k)"
    top = """top = f32[1,4] dynamic-slice(stack, i, zero), dynamic_slice_sizes={1,4}
      flat = f32[4] reshape(top)
      w = f32[4] multiply(v, flat)"""
    text = forward().replace(read, top) + MAIN
    check(invariant_stacks.run, text, text)


GRADIENT = """
    body2 {
      s2 = (s32[], f32[4], f32[7,4]) parameter(0)
      i2 = s32[] get-tuple-element(s2), tuple_index=0
      d = f32[4] get-tuple-element(s2), tuple_index=1
      stack2 = f32[7,4] get-tuple-element(s2), tuple_index=2
      one2 = s32[] constant(1)
      zero2 = s32[] constant(0)
      j2 = s32[] subtract(i2, one2)
      top = f32[1,4] dynamic-slice(stack2, j2, zero2), dynamic_slice_sizes={1,4}
      row = f32[4] reshape(top)
      e = f32[4] multiply(d, row)
      ROOT r2 = (s32[], f32[4], f32[7,4]) tuple(j2, e, stack2)
    }
    condition2 {
      c2 = (s32[], f32[4], f32[7,4]) parameter(0)
      ci2 = s32[] get-tuple-element(c2), tuple_index=0
      n2 = s32[] constant(0)
      ROOT q2 = pred[] compare(ci2, n2), comparison_direction="GT"
    }
"""


def test_a_gradient_reads_the_one_value():
    main = MAIN.replace(
        "ROOT g = f32[7,4] negate(filled)",
        """m = s32[] get-tuple-element(z), tuple_index=0
      t2 = (s32[], f32[4], f32[7,4]) tuple(m, x, filled)
      z2 = (s32[], f32[4], f32[7,4]) while(t2), calls={body2, condition2}
      ROOT g = f32[4] get-tuple-element(z2), tuple_index=1""",
    )
    module = simplify(parse(forward() + GRADIENT + main))
    verify(module)
    assert "f32[7,4]" not in to_text(module)
    loops = [i for c in module.computations.values() for i in c if i.opcode == "while"]
    assert [str(loop.type) for loop in loops] == ["(s32[])", "(s32[], f32[4], f32[4])"]
    assert [loop.attributes["trip_count"] for loop in loops] == [7, 7]
