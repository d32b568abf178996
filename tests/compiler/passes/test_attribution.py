"""Layers and phases: from names, from what reads, from what is updated, from callers."""

import pytest

from ipu_tf.compiler.hlo import parse, to_text, verify
from ipu_tf.compiler.passes import attribution, inline
from ipu_tf.compiler.passes.simplify import simplify
from tests.compiler import modules
from tests.grids import mostly_slow

STEP = """
parameter 0 input "x"
parameter 1 weight "net/dense/kernel" layer="net/dense" updated_by=1
parameter 2 state "metric" updated_by=2

ENTRY main {
  x = f32[4,8] parameter(0)
  w = f32[8,2] parameter(1)
  m = f32[] parameter(2)
  y = f32[4,2] dot(x, w), layer="net/dense", op_name="net/dense/MatMul"
  view = f32[2,4] reshape(y)
  g = f32[8,2] dot(x, view), layer="net/dense", op_name="gradient_tape/net/dense/MatMul/MatMul_1"
  rate = f32[] constant(0.1), layer="sgd", op_name="sgd/mul"
  scale = f32[8,2] broadcast(rate), dimensions={}, layer="sgd", op_name="sgd/mul"
  scaled = f32[8,2] multiply(g, scale), layer="sgd", op_name="sgd/mul"
  new = f32[8,2] subtract(w, scaled), layer="sgd", op_name="sgd/sub"
  one = f32[] constant(1.0), op_name="count"
  count = f32[] add(m, one), op_name="count"
  ROOT t = (f32[4,2], f32[8,2], f32[]) tuple(y, new, count)
}
"""


def attributed(text):
    module = attribution.run(parse(text))
    verify(module)
    return module


def test_phases():
    entry = attributed(STEP).entry_computation.by_name()
    assert {name for name, i in entry.items() if i.phase == "backward"} == {"g", "view"}
    assert {name for name, i in entry.items() if i.phase == "update"} == {
        "rate",
        "scale",
        "scaled",
        "new",
    }


def test_updates_belong_to_the_layer_of_their_weight():
    entry = attributed(STEP).entry_computation.by_name()
    assert {entry[name].layer for name in ("rate", "scale", "scaled", "new")} == {"net/dense"}


def test_what_has_no_name_follows_what_reads_it():
    entry = attributed(STEP).entry_computation.by_name()
    assert entry["view"].layer == "net/dense"
    assert entry["count"].layer == ""


def test_accumulators_belong_to_the_backward_pass_and_the_layer_of_their_weight():
    text = STEP.replace(
        "ENTRY",
        'parameter 3 accumulator "net/dense/kernel_sum" layer="net/dense" updated_by=3\n\nENTRY',
    )
    text = text.replace(
        "  rate =",
        '  s = f32[8,2] parameter(3)\n  sum = f32[8,2] add(s, g), op_name="AssignAdd"\n  rate =',
    )
    text = text.replace("multiply(g, scale)", "multiply(sum, scale)")
    text = text.replace("f32[]) tuple(y, new, count)", "f32[], f32[8,2]) tuple(y, new, count, sum)")
    entry = attributed(text).entry_computation.by_name()
    assert (entry["sum"].phase, entry["sum"].layer) == ("backward", "net/dense")
    assert entry["scaled"].phase == "update"


def test_what_is_read_for_an_output_too_is_no_update():
    text = STEP.replace("tuple(y, new", "tuple(scaled, new").replace(
        "ROOT t = (f32[4,2]", "ROOT t = (f32[8,2]"
    )
    entry = attributed(text).entry_computation.by_name()
    assert entry["scaled"].phase == "backward"
    assert entry["new"].phase == "update"


def test_sums_of_gradients_are_gradients():
    sums = """
    h = f32[8,2] negate(g), layer="net/dense", op_name="gradient_tape/net/dense/Neg"
    both = f32[8,2] add(g, h), op_name="AddN"
    k = f32[8,2] negate(both), layer="net/other", op_name="gradient_tape/net/other/Neg"
    """
    text = STEP.replace("  rate = ", sums + "  rate = ").replace("multiply(g,", "multiply(k,")
    both = attributed(text).entry_computation.by_name()["both"]
    assert (both.phase, both.layer) == ("backward", "net/dense")


def test_what_an_update_asks_of_a_gradient_is_of_its_layer():
    module = attributed(
        """
        parameter 0 weight "a/kernel" layer="a" updated_by=0
        parameter 1 weight "b/kernel" layer="b" updated_by=1
        parameter 2 input "x"

        ENTRY main {
          a = f32[8] parameter(0)
          b = f32[8] parameter(1)
          x = f32[8] parameter(2)
          ga = f32[8] negate(x), layer="a", op_name="gradient_tape/a/Neg"
          gb = f32[8] tanh(x), layer="b", op_name="gradient_tape/b/Tanh"
          fa = pred[8] is-finite(ga), op_name="IsFinite"
          fb = pred[8] is-finite(gb), op_name="IsFinite_1"
          both = pred[8] and(fa, fb), op_name="All"
          na = f32[8] select(both, ga, a), layer="sgd", op_name="sgd/sub"
          nb = f32[8] select(both, gb, b), layer="sgd", op_name="sgd/sub_1"
          ROOT t = (f32[8], f32[8]) tuple(na, nb)
        }
        """
    )
    found = {i.name: (i.phase, i.layer) for i in module.entry_computation}
    assert [found[name] for name in ("fa", "fb")] == [("update", "a"), ("update", "b")]
    assert found["both"] == ("update", "")


def test_what_is_attributed_stays():
    module = attributed(STEP)
    assert to_text(attribution.run(module)) == to_text(module)


def test_bodies_follow_their_loop():
    module = attributed(
        """
        body {
          s = (f32[2]) parameter(0)
          e = f32[2] get-tuple-element(s), tuple_index=0
          f = f32[2] tanh(e), layer="net/cell", op_name="net/cell/Tanh"
          ROOT u = (f32[2]) tuple(f)
        }
        condition {
          v = (f32[2]) parameter(0)
          ROOT k = pred[] constant(false)
        }
        ENTRY main {
          x = (f32[2]) parameter(0)
          ROOT z = (f32[2]) while(x), calls={body, condition}, layer="net", \
op_name="gradient_tape/net/while"
        }
        """
    )
    body = module.computations["body"].by_name()
    assert (body["f"].layer, body["f"].phase) == ("net/cell", "backward")
    assert module.computations["condition"].by_name()["k"].phase == "backward"


def test_updates_in_a_branch_belong_to_their_weights():
    module = simplify(modules.module("mixed_precision"))
    verify(module)
    (branch,) = (i for i in module.entry_computation if i.opcode == "conditional")
    assert branch.phase == "update"
    layers = {i.layer for name in branch.computations for i in module.computations[name]}
    assert {
        parameter.layer for parameter in module.parameters if parameter.role == "weight"
    } <= layers


COUNTED = """
parameter 0 weight "net/kernel" layer="net" updated_by=0
parameter 1 state "step" updated_by=1
parameter 2 input "x"

yes {
  t = (f32[2], f32[], f32[2]) parameter(0)
  w = f32[2] get-tuple-element(t), tuple_index=0
  n = f32[] get-tuple-element(t), tuple_index=1
  g = f32[2] get-tuple-element(t), tuple_index=2
  one = f32[] constant(1.0)
  new = f32[2] subtract(w, g), op_name="sgd/sub"
  more = f32[] add(n, one), op_name="count/add"
  ROOT r = (f32[2], f32[]) tuple(new, more)
}
no {
  u = (f32[2], f32[], f32[2]) parameter(0)
  old = f32[2] get-tuple-element(u), tuple_index=0
  same = f32[] get-tuple-element(u), tuple_index=1
  ROOT s = (f32[2], f32[]) tuple(old, same)
}
ENTRY main {
  w0 = f32[2] parameter(0)
  c = f32[] parameter(1)
  x = f32[2] parameter(2)
  g0 = f32[2] multiply(w0, x), layer="net", op_name="gradient_tape/net/mul"
  finite = pred[2] is-finite(g0), op_name="IsFinite"
  sure = pred[] slice(finite), op_name="All"
  with = (f32[2], f32[], f32[2]) tuple(w0, c, g0)
  cond = (f32[2], f32[]) conditional(sure, with, with), calls={yes, no}, op_name="cond"
  v0 = f32[2] get-tuple-element(cond), tuple_index=0
  v1 = f32[] get-tuple-element(cond), tuple_index=1
  ROOT out = (f32[2], f32[]) tuple(v0, v1)
}
"""


def test_a_branch_that_updates_a_weight_is_the_update_with_all_its_results():
    module = attribution.run(parse(COUNTED))
    found = module.entry_computation.by_name()
    assert (found["cond"].phase, found["v0"].phase, found["g0"].phase) == (
        "update",
        "update",
        "backward",
    )
    assert module.computations["yes"].by_name()["new"].layer == "net"


@pytest.mark.parametrize("name", mostly_slow(modules.NAMES, modules.FAST))
@pytest.mark.fast_cells(3)
def test_every_contraction_has_its_layer_and_phase(name):
    module = attribution.run(inline.run(modules.module(name)))
    weights = {parameter.layer for parameter in module.parameters if parameter.role == "weight"}
    found = [
        i
        for computation in module.computations.values()
        for i in computation
        if i.opcode in ("dot", "convolution")
    ]
    assert {i.phase for i in found} == {"forward", "backward"}
    assert all(i.layer for i in found)
    if name != "transformer":  # Products of attention belong to layers without weights.
        assert {i.layer for i in found} <= weights
    for i in found:
        assert (i.phase == "backward") == ("gradient_tape" in i.op_name)
