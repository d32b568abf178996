"""Layers that several stages call: who runs which call, and who adds up their gradients."""

import pytest

from ipu_tf.compiler.hlo import parse, verify
from ipu_tf.compiler.pipeline.assignment import assign
from ipu_tf.compiler.pipeline.deploy import deploy
from ipu_tf.compiler.pipeline.deployment import Deployment, Offload
from ipu_tf.compiler.pipeline.shared_sums import added_by_stages
from ipu_tf.compiler.pipeline.split import prepared, with_accumulators
from tests.compiler.pipeline.cifar10_pipeline import OPTIONS
from tests.compiler.pipeline.cifar10_pipeline import compiled as cifar10

STAGES = {"words": 0, "hidden": 1, "head": 2}
SHARED = {"words": (0, 2)}
BACK = "phase=backward"


@pytest.fixture(scope="module")
def module():
    """Tied embeddings: the layer "words" is called before and after the layer "hidden"."""
    return prepared(
        parse(
            f"""
            parameter 0 input "x"
            parameter 1 weight "w" layer="words" updated_by=0
            parameter 2 weight "v" layer="hidden" updated_by=1
            ENTRY main {{
              x = f32[64,64] parameter(0)
              w = f32[64,64] parameter(1)
              v = f32[64,64] parameter(2)
              embedded = f32[64,64] multiply(x, w), layer="words"
              turned = f32[64,64] negate(w), layer="words"
              h = f32[64,64] multiply(embedded, v), layer="hidden"
              t = f32[64,64] tanh(h), layer="head"
              logits = f32[64,64] multiply(t, turned), layer="words"
              g = f32[64,64] sine(logits), layer="loss", {BACK}
              g_late = f32[64,64] multiply(g, t), layer="words", {BACK}
              g_t = f32[64,64] multiply(g, turned), layer="words", {BACK}
              g_h = f32[64,64] multiply(g_t, t), layer="head", {BACK}
              g_v = f32[64,64] multiply(g_h, embedded), layer="hidden", {BACK}
              g_e = f32[64,64] multiply(g_h, v), layer="hidden", {BACK}
              again = f32[64,64] cosine(x), layer="words", {BACK}
              g_early = f32[64,64] multiply(g_e, again), layer="words", {BACK}
              g_w = f32[64,64] add(g_late, g_early), layer="words", {BACK}
              new_w = f32[64,64] subtract(w, g_w), layer="words", phase=update
              new_v = f32[64,64] subtract(v, g_v), layer="hidden", phase=update
              ROOT all = (f32[64,64], f32[64,64]) tuple(new_w, new_v)
            }}
            """
        )
    )


@pytest.fixture(scope="module")
def assignment(module):
    return assign(module, STAGES, 3, shared_layers=SHARED)


def deployed(module, **changes):
    deployment = Deployment(
        stage_of_layers=STAGES,
        shared_layers=SHARED,
        ipu_of_stages=(0, 1, 0),
        micro_batches=8,
        **changes,
    )
    return deploy(module, OPTIONS, deployment, {})


def test_every_call_is_in_its_own_stage(assignment):
    stages = {name: assignment.stage_of[name] for name in ("embedded", "turned", "logits")}
    assert stages == {"embedded": 0, "turned": 2, "logits": 2}


def test_so_are_the_gradients(assignment):
    names = ("g_late", "g_t", "g_early", "again", "g_w")
    assert [assignment.stage_of[name] for name in names] == [2, 2, 0, 0, 0]


def test_each_stage_adds_its_gradient_to_the_accumulator(module, assignment):
    changed, places = added_by_stages(*with_accumulators(module, assignment), (0, 1, 0))
    verify(changed)
    by_name = changed.entry_computation.by_name()
    total = "g_w.accumulator"
    assert set(by_name["g_w.accumulated"].operands) == {total, "g_early"}
    assert by_name["g_w.accumulated.stage2"].operands == (f"{total}.stage2", "g_late")
    assert places.stage_of["g_w.accumulated.stage2"] == places.stage_of[f"{total}.stage2"] == 2
    assert sum(parameter.role == "held" for parameter in changed.parameters) == 1


def test_each_stage_adds_its_scaled_gradient_where_micro_batches_are_averaged():
    module = averaged()
    assignment = assign(module, STAGES, 3, shared_layers=SHARED)
    changed, places = added_by_stages(module, assignment, (0, 1, 0))
    verify(changed)
    by_name = changed.entry_computation.by_name()
    assert by_name["sum"].operands == ("total", "g_early")
    assert by_name["sum.stage2"].operands == ("total.stage2", "g_late")
    for name in ("sum", "sum.stage2"):
        (inside,) = by_name[name].computations
        opcodes = [instruction.opcode for instruction in changed.computations[inside]]
        assert opcodes.count("multiply") == opcodes.count("add") == 1
    assert places.stage_of["sum.stage2"] == 2
    program = deployed(module)
    assert {c.name for c in program.crossings if c.phase == "backward"} == {"g_h", "g_e"}


def averaged():
    """A step that adds an eighth of the gradients of tied embeddings to its own accumulator."""
    return prepared(
        parse(
            f"""
            parameter 0 input "x"
            parameter 1 weight "w" layer="words" updated_by=0
            parameter 2 accumulator "w.total" layer="words" updated_by=1
            mean {{
              late = f32[64,64] parameter(0)
              early = f32[64,64] parameter(1)
              before = f32[64,64] parameter(2)
              both = f32[64,64] add(late, early)
              eighth = f32[] constant(0.125)
              eighths = f32[64,64] broadcast(eighth), dimensions={{}}
              scaled = f32[64,64] multiply(both, eighths)
              ROOT after = f32[64,64] add(before, scaled)
            }}
            ENTRY main {{
              x = f32[64,64] parameter(0)
              w = f32[64,64] parameter(1)
              total = f32[64,64] parameter(2)
              embedded = f32[64,64] multiply(x, w), layer="words"
              h = f32[64,64] tanh(embedded), layer="hidden"
              logits = f32[64,64] multiply(h, w), layer="words"
              g = f32[64,64] sine(logits), layer="loss", {BACK}
              g_late = f32[64,64] multiply(g, h), layer="words", {BACK}
              g_h = f32[64,64] multiply(g, w), layer="words", {BACK}
              g_e = f32[64,64] multiply(g_h, h), layer="hidden", {BACK}
              again = f32[64,64] cosine(x), layer="words", {BACK}
              g_early = f32[64,64] multiply(g_e, again), layer="words", {BACK}
              sum = f32[64,64] fusion(g_late, g_early, total), calls={{mean}}, layer="words", {BACK}
              new_w = f32[64,64] subtract(w, sum), layer="words", phase=update
              ROOT all = (f32[64,64], f32[64,64]) tuple(new_w, sum)
            }}
            """
        )
    )


def test_stages_on_other_ipus_send_their_gradients(module, assignment):
    summed = with_accumulators(module, assignment)
    assert added_by_stages(*summed, (0, 1, 2))[0] == summed[0]


def test_no_gradient_waits_and_the_accumulator_is_there_once(module):
    program = deployed(module)
    assert {c.name for c in program.crossings if c.phase == "backward"} == {"g_h", "g_e"}
    kept = [t for s in program.stages for t in s.program.tensors if t.category == "accumulators"]
    assert sum(tensor.bytes for tensor in kept) == 2 * 64 * 64 * 4
    (first, _) = program.ipus
    sizes = [s.program.memory.always_live["accumulators"].sum() for s in program.stages]
    assert first.memory.always_live["accumulators"].sum() == sizes[0] > sizes[2] == 0


def test_a_streamed_accumulator_is_moved_by_each_of_them(module):
    program = deployed(module, offload=Offload(accumulators=True))
    assert program.stages[0].streamed.backward == program.stages[2].streamed.backward > 0
    assert program.stages[2].streaming_bytes == 0


def test_the_backward_pass_hands_nothing_to_later_stages_when_it_recomputes():
    for crossing in cifar10(4, 6, recompute=True, micro_batches=8).crossings:
        if crossing.phase == "backward":
            assert crossing.source > crossing.destination, crossing
