"""Loops that count are counted."""

import pytest

from ipu_tf.compiler.hlo import parse, verify
from ipu_tf.compiler.passes import pipeline, trip_counts
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


def test_the_gradient_of_a_loop_runs_as_often():
    module = pipeline.simplify(modules.module("lstm"))
    loops = [i for i in module.entry_computation if i.opcode == "while"]
    assert [i.attributes.get("trip_count") for i in loops] == [10, 10]
