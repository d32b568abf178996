"""Loops that count are counted."""

import pytest

from ipu_tf.compiler.compile import compile_program
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.hlo import parse, verify
from ipu_tf.compiler.passes.caller_constants import known_values
from ipu_tf.compiler.passes.loops import trip_counts
from ipu_tf.compiler.passes.simplify import simplify
from tests.compiler import modules


def loop(condition, *, first=0, step="add(i, c)", amount=1, limit=10, keeps_limit=True):
    """A loop over (counter, limit, value); the condition may read i, n and k, a constant."""
    kept = "n" if keeps_limit else "j"
    return f"""
    body {{
      s = (s32[], s32[], f32[]) parameter(0)
      i = s32[] get-tuple-element(s), tuple_index=0
      n = s32[] get-tuple-element(s), tuple_index=1
      v = f32[] get-tuple-element(s), tuple_index=2
      c = s32[] constant({amount})
      j = s32[] {step}
      w = f32[] tanh(v)
      ROOT r = (s32[], s32[], f32[]) tuple(j, {kept}, w)
    }}
    condition {{
      s1 = (s32[], s32[], f32[]) parameter(0)
      i1 = s32[] get-tuple-element(s1), tuple_index=0
      n1 = s32[] get-tuple-element(s1), tuple_index=1
      v1 = f32[] get-tuple-element(s1), tuple_index=2
      k1 = s32[] constant({limit})
      zero = f32[] constant(0.0)
      ok = pred[] compare(v1, zero), comparison_direction=GT
      less = pred[] compare({condition})
      both = pred[] and(ok, less)
      ROOT q = pred[] copy(less)
    }}
    ENTRY main {{
      x = f32[] parameter(0)
      a = s32[] constant({first})
      b = s32[] constant({limit})
      t = (s32[], s32[], f32[]) tuple(a, b, x)
      ROOT z = (s32[], s32[], f32[]) while(t), calls={{body, condition}}
    }}
    """


def counts(text):
    module = trip_counts.run(parse(text))
    verify(module)
    (found,) = (i for i in module.entry_computation if i.opcode == "while")
    return found.attributes


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"condition": "i1, n1"}, 10),
        ({"condition": "i1, k1"}, 10),
        ({"condition": "i1, k1", "first": 3}, 7),
        ({"condition": "i1, k1", "amount": 4}, 3),
        ({"condition": "i1, k1", "amount": 5}, 2),
        ({"condition": "i1, k1", "step": "add(c, i)"}, 10),
        ({"condition": "i1, k1", "first": 12}, 0),
        ({"condition": "i1, k1", "amount": -1}, None),
        ({"condition": "i1, n1", "keeps_limit": False}, None),
        ({"condition": "i1, k1", "step": "multiply(i, c)"}, None),
    ],
)
def test_upward_counters(options, expected):
    condition = options.pop("condition")
    text = loop(condition, **options).replace(
        f"compare({condition})", f"compare({condition}), comparison_direction=LT"
    )
    assert counts(text).get("trip_count") == expected


@pytest.mark.parametrize(
    ("condition", "direction", "step", "first", "limit", "expected"),
    [
        ("i1, k1", "LE", "add(i, c)", 0, 10, 11),
        ("k1, i1", "GT", "add(i, c)", 0, 10, 10),
        ("i1, k1", "GT", "subtract(i, c)", 10, 0, 10),
        ("i1, k1", "GE", "subtract(i, c)", 10, 0, 11),
        ("k1, i1", "LT", "subtract(i, c)", 10, 0, 10),
        ("i1, k1", "NE", "add(i, c)", 0, 10, None),
    ],
)
def test_directions(condition, direction, step, first, limit, expected):
    text = loop(condition, step=step, first=first, limit=limit).replace(
        f"compare({condition})", f"compare({condition}), comparison_direction={direction}"
    )
    assert counts(text).get("trip_count") == expected


def test_another_condition_makes_it_a_bound():
    text = loop("i1, k1").replace("compare(i1, k1)", "compare(i1, k1), comparison_direction=LT")
    attributes = counts(text.replace("copy(less)", "copy(both)"))
    assert attributes == {"max_trip_count": 10}


def test_a_condition_may_be_two_in_a_branch():
    """What AutoGraph makes of `i < k and ok`: `ok` is looked at only where `i < k`."""
    text = loop("i1, k1").replace("compare(i1, k1)", "compare(i1, k1), comparison_direction=LT")
    branches = """
    yes {
      p = (pred[]) parameter(0)
      ROOT a1 = pred[] get-tuple-element(p), tuple_index=0
    }
    no {
      p2 = (pred[]) parameter(0)
      ROOT a2 = pred[] constant(false)
    }
    condition {"""
    chosen = """t1 = (pred[]) tuple(ok)
      ROOT q = pred[] conditional(less, t1, t1), calls={yes, no}"""
    text = text.replace("condition {", branches).replace("ROOT q = pred[] copy(less)", chosen)
    assert counts(text) == {"max_trip_count": 10}
    assert counts(text.replace("constant(false)", "constant(true)")) == {}


def nested(table, *, inner_limit="limit", keeps_table=True):
    """A loop of three iterations with another in it, up to what the iteration finds in a table."""
    kept = "table" if keeps_table else "other"
    return f"""
    body {{
      s = (s32[], s32[]) parameter(0)
      i = s32[] get-tuple-element(s), tuple_index=0
      n = s32[] get-tuple-element(s), tuple_index=1
      c = s32[] constant(1)
      j = s32[] add(i, c)
      ROOT r = (s32[], s32[]) tuple(j, n)
    }}
    condition {{
      s1 = (s32[], s32[]) parameter(0)
      i1 = s32[] get-tuple-element(s1), tuple_index=0
      n1 = s32[] get-tuple-element(s1), tuple_index=1
      ROOT less = pred[] compare(i1, n1), comparison_direction=LT
    }}
    outer {{
      s2 = (s32[], (s32[3]), s32[]) parameter(0)
      i2 = s32[] get-tuple-element(s2), tuple_index=0
      table = (s32[3]) get-tuple-element(s2), tuple_index=1
      data = s32[3] get-tuple-element(table), tuple_index=0
      one = s32[1] dynamic-slice(data, i2), dynamic_slice_sizes={{1}}
      limit = s32[] reshape(one)
      zero = s32[] constant(0)
      t = (s32[], s32[]) tuple(zero, {inner_limit})
      w = (s32[], s32[]) while(t), calls={{body, condition}}
      done = s32[] get-tuple-element(w), tuple_index=0
      c2 = s32[] constant(1)
      j2 = s32[] add(i2, c2)
      other = (s32[3]) tuple(data)
      ROOT r2 = (s32[], (s32[3]), s32[]) tuple(j2, {kept}, done)
    }}
    outer_condition {{
      s3 = (s32[], (s32[3]), s32[]) parameter(0)
      i3 = s32[] get-tuple-element(s3), tuple_index=0
      k3 = s32[] constant(3)
      ROOT less3 = pred[] compare(i3, k3), comparison_direction=LT
    }}
    ENTRY main {{
      x = s32[3] constant({{{table}}})
      first = s32[] constant(0)
      array = (s32[3]) tuple(x)
      t3 = (s32[], (s32[3]), s32[]) tuple(first, array, first)
      ROOT z = (s32[], (s32[3]), s32[]) while(t3), calls={{outer, outer_condition}}
    }}
    """


@pytest.mark.parametrize(
    ("table", "options", "expected"),
    [
        ("4, 4, 4", {}, {"trip_count": 4}),
        ("5, 1, 1", {}, {"mean_trip_count": (7, 3)}),
        ("5, 1, 1", {"inner_limit": "i2"}, {}),
        ("4, 4, 4", {"keeps_table": False}, {}),
    ],
)
def test_limits_from_a_table_that_the_outer_loop_carries(table, options, expected):
    module = trip_counts.run(parse(nested(table, **options)))
    verify(module)
    (inner,) = (i for i in module.computations["outer"] if i.opcode == "while")
    assert inner.attributes == expected


def test_a_mean_is_charged_exactly():
    program = compile_program(parse(nested("5, 1, 1")), CompilerOptions(), {}, 0)
    assert program.notes == ()
    repeats = {step.name: step.repeats for step in program.steps}
    assert (repeats["j"], repeats["less"]) == (7, 7 + 3)  # The condition fails three times.


def test_the_gradient_of_a_loop_runs_as_often():
    module = simplify(modules.module("lstm"))
    loops = [i for i in module.entry_computation if i.opcode == "while"]
    assert [i.attributes.get("trip_count") for i in loops] == [10, 10]


def test_constants_as_large_as_gradients_are_not_made():
    module = parse("""
    ENTRY main {
      zero = f32[] constant(0.0)
      table = f32[100] broadcast(zero)
      ROOT zeros = f32[1000000,1000000] broadcast(table), dimensions={}
    }""")
    values = known_values(module)["main"]
    assert values["table"].tolist() == [0.0] * 100
    assert values["zeros"] is None
