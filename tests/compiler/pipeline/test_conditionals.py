"""A conditional of the update becomes one for each stage; what stages share goes before it."""

import pytest

from ipu_tf.compiler.hlo import parse, to_text, verify
from ipu_tf.compiler.pipeline.assignment import assign
from ipu_tf.compiler.pipeline.conditionals import split_conditionals
from ipu_tf.compiler.pipeline.split import cut

STAGES = {"net/a": 0, "net/b": 1}
HEADER = """
parameter 0 weight "net/a/kernel" layer="net/a" updated_by=0
parameter 1 weight "net/b/kernel" layer="net/b" updated_by=1
parameter 2 optimizer_state "steps" updated_by=2
parameter 3 accumulator "net/a/sum" layer="net/a"
parameter 4 accumulator "net/b/sum" layer="net/b"
"""
BEFORE = f"""{HEADER}
yes {{
  t = (f32[2], f32[3], f32[], f32[2], f32[3]) parameter(0)
  a = f32[2] get-tuple-element(t), tuple_index=0, layer="net/a"
  b = f32[3] get-tuple-element(t), tuple_index=1, layer="net/b"
  n = f32[] get-tuple-element(t), tuple_index=2
  ga = f32[2] get-tuple-element(t), tuple_index=3, layer="net/a"
  gb = f32[3] get-tuple-element(t), tuple_index=4, layer="net/b"
  one = f32[] constant(1.0)
  more = f32[] add(n, one)
  rate = f32[] divide(one, more)
  rate_a = f32[2] broadcast(rate), dimensions={{}}, layer="net/a"
  rate_b = f32[3] broadcast(rate), dimensions={{}}, layer="net/b"
  step_a = f32[2] multiply(ga, rate_a), layer="net/a"
  step_b = f32[3] multiply(gb, rate_b), layer="net/b"
  new_a = f32[2] subtract(a, step_a), layer="net/a"
  new_b = f32[3] subtract(b, step_b), layer="net/b"
  ROOT r = (f32[2], f32[3], f32[], f32[2]) tuple(new_a, new_b, more, ga)
}}
no {{
  u = (f32[2], f32[3], f32[]) parameter(0)
  old_a = f32[2] get-tuple-element(u), tuple_index=0
  old_b = f32[3] get-tuple-element(u), tuple_index=1
  old_n = f32[] get-tuple-element(u), tuple_index=2
  ROOT s = (f32[2], f32[3], f32[], f32[2]) tuple(old_a, old_b, old_n, old_a)
}}
ENTRY main {{
  w0 = f32[2] parameter(0)
  w1 = f32[3] parameter(1)
  c = f32[] parameter(2)
  g0 = f32[2] parameter(3)
  g1 = f32[3] parameter(4)
  y0 = f32[2] negate(w0), layer="net/a"
  y1 = f32[3] negate(w1), layer="net/b"
  finite = pred[] is-finite(c), phase="update"
  with = (f32[2], f32[3], f32[], f32[2], f32[3]) tuple(w0, w1, c, g0, g1), phase="update"
  without = (f32[2], f32[3], f32[]) tuple(w0, w1, c), phase="update"
  cond = (f32[2], f32[3], f32[], f32[2]) conditional(finite, with, without), calls={{yes, no}}, phase="update"
  v0 = f32[2] get-tuple-element(cond), tuple_index=0, phase="update"
  v1 = f32[3] get-tuple-element(cond), tuple_index=1, phase="update"
  v2 = f32[] get-tuple-element(cond), tuple_index=2, phase="update"
  ROOT out = (f32[2], f32[3], f32[], f32[2], f32[3]) tuple(v0, v1, v2, y0, y1), phase="update"
}}
"""  # noqa: E501


@pytest.fixture
def split():
    module, stages = split_conditionals(parse(BEFORE), STAGES)
    verify(module)
    return module, stages


def conditionals(module):
    return {i.name: i for i in module.entry_computation if i.opcode == "conditional"}


def test_there_is_one_for_each_stage_and_one_for_what_has_none(split):
    module, stages = split
    assert set(conditionals(module)) == {"cond.stage0", "cond.stage1", "cond.rest"}
    assert stages == {"cond.stage0": 0, "cond.stage1": 1}
    by_name = module.entry_computation.by_name()
    made = [by_name[name].operands for name in by_name["out"].operands[:3]]
    assert made == [("cond.stage0",), ("cond.stage1",), ("cond.rest",)]


def test_a_stage_takes_its_own_weights_and_what_is_shared(split):
    module, _ = split
    by_name = module.entry_computation.by_name()
    taken = {
        name: [by_name[tuple_].operands for tuple_ in conditional.operands[1:]]
        for name, conditional in conditionals(module).items()
    }
    assert taken == {
        "cond.stage0": [("w0", "g0", "rate.shared"), ("w0",)],
        "cond.stage1": [("w1", "g1", "rate.shared"), ("w1",)],
        "cond.rest": [("more.shared",), ("c",)],
    }


def test_what_stages_share_goes_before_them_once(split):
    module, _ = split
    entry = module.entry_computation
    names = [instruction.name for instruction in entry]
    assert names.index("rate.shared") < names.index("cond.stage0")
    by_name = entry.by_name()
    assert by_name["more.shared"].operands == ("c", "one.shared")
    assert by_name["rate.shared"].operands == ("one.shared", "more.shared")
    kept = [i.opcode for name in module.computations for i in module.computations[name]]
    assert kept.count("divide") == 1
    assert kept.count("multiply") == kept.count("subtract") == 2


def test_no_weight_crosses(split):
    module, stages = split
    assignment = assign(module, STAGES, 2, stages)
    assert assignment.stage_of["cond.stage0"] == 0
    assert assignment.stage_of["cond.stage1"] == 1
    crossings = cut(module, assignment).crossings
    assert max(crossing.bytes for crossing in crossings) == 4
    whole = parse(BEFORE)
    crossings = cut(whole, assign(whole, STAGES, 2)).crossings
    assert {"w0", "w1"} & {crossing.name for crossing in crossings}


def test_splitting_again_changes_nothing(split):
    module, _ = split
    again, stages = split_conditionals(module, STAGES)
    assert to_text(again) == to_text(module)
    assert stages == {}


NESTED = """
due_yes {
  q = (f32[2], f32[3], f32[], f32[2], f32[3]) parameter(0)
  w0 = f32[2] get-tuple-element(q), tuple_index=0
  w1 = f32[3] get-tuple-element(q), tuple_index=1
  c = f32[] get-tuple-element(q), tuple_index=2
  g0 = f32[2] get-tuple-element(q), tuple_index=3
  g1 = f32[3] get-tuple-element(q), tuple_index=4
CONDITIONAL
  ROOT o = (f32[2], f32[3], f32[]) tuple(v0, v1, v2)
}
due_no {
  k = (f32[2], f32[3], f32[]) parameter(0)
  k0 = f32[2] get-tuple-element(k), tuple_index=0
  k1 = f32[3] get-tuple-element(k), tuple_index=1
  k2 = f32[] get-tuple-element(k), tuple_index=2
  ROOT l = (f32[2], f32[3], f32[]) tuple(k0, k1, k2)
}
ENTRY main {
  e0 = f32[2] parameter(0)
  e1 = f32[3] parameter(1)
  e2 = f32[] parameter(2)
  e3 = f32[2] parameter(3)
  e4 = f32[3] parameter(4)
  y0 = f32[2] negate(e0), layer="net/a"
  y1 = f32[3] negate(e1), layer="net/b"
  due = pred[] is-finite(e2), phase="update"
  all = (f32[2], f32[3], f32[], f32[2], f32[3]) tuple(e0, e1, e2, e3, e4), phase="update"
  some = (f32[2], f32[3], f32[]) tuple(e0, e1, e2), phase="update"
  when = (f32[2], f32[3], f32[]) conditional(due, all, some), calls={due_yes, due_no}, phase="update"
  x0 = f32[2] get-tuple-element(when), tuple_index=0, phase="update"
  x1 = f32[3] get-tuple-element(when), tuple_index=1, phase="update"
  x2 = f32[] get-tuple-element(when), tuple_index=2, phase="update"
  ROOT out = (f32[2], f32[3], f32[], f32[2], f32[3]) tuple(x0, x1, x2, y0, y1), phase="update"
}
"""  # noqa: E501


def test_a_conditional_in_a_branch_is_split_too():
    branches, entry = BEFORE[: BEFORE.index("ENTRY")], BEFORE[BEFORE.index("ENTRY") :]
    inner = entry[entry.index("  finite") : entry.index("  ROOT")]
    before = parse(branches + NESTED.replace("CONDITIONAL\n", inner))
    verify(before)
    module, stages = split_conditionals(before, STAGES)
    verify(module)
    assert len(conditionals(module)) == 6
    assert sorted(stages.values()) == [0, 0, 1, 1]
    crossings = cut(module, assign(module, STAGES, 2, stages)).crossings
    assert max(crossing.bytes for crossing in crossings) == 4


def test_branches_with_effects_stay_whole():
    text = BEFORE.replace("  ROOT r =", "  h = () host-call(n)\n  ROOT r =")
    module, stages = split_conditionals(parse(text), STAGES)
    assert stages == {}
    assert list(conditionals(module)) == ["cond"]
