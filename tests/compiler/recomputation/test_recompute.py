"""The backward pass computes values again: which, when, and from what."""

import pytest

from ipu_tf.compiler.compile import compile_program
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.hlo import parse, to_text, verify
from ipu_tf.compiler.recomputation import marks
from ipu_tf.compiler.recomputation.recompute import recomputed
from ipu_tf.machine.target import target
from tests.compiler import modules
from tests.compiler.pipeline.cifar10_pipeline import compiled

BACK = "phase=backward"
KEEP = f'op_name="keep/{marks.CHECKPOINT}"'


def chain(*, checkpoint=False, seeds="", first="tanh(x)"):
    """Three layers, each of which reads its result in the backward pass, and a gradient."""
    end = f"b_end = f32[8] opt-barrier(b), {KEEP}\n" if checkpoint else ""
    c_reads = "b_end" if checkpoint else "b"
    return parse(
        f"""
        parameter 0 input "x"
        parameter 1 state "seed" updated_by=1
        ENTRY main {{
          x = f32[8] parameter(0)
          s = f32[8] parameter(1)
          {seeds}
          a = f32[8] {first}, layer="a"
          b = f32[8] tanh(a), layer="b"
          {end}
          c = f32[8] tanh({c_reads}), layer="c"
          t = f32[8] negate(s)
          g = f32[8] sine(c), layer="loss", {BACK}
          gc = f32[8] multiply(g, c), layer="c", {BACK}
          gb = f32[8] multiply(gc, b), layer="b", {BACK}
          sign = f32[8] sign(a), layer="a", {BACK}
          ga = f32[8] multiply(gb, sign), layer="a", {BACK}
          ROOT all = (f32[8], f32[8]) tuple(ga, t)
        }}
        """
    )


def lines(module, **options):
    """The lines that recomputation adds to a module or changes."""
    result = recomputed(module, recompute=True, **options).module
    verify(result)
    before = to_text(marks.without_checkpoints(module)).splitlines()
    return [line.strip() for line in to_text(result).splitlines() if line not in before]


def test_what_leads_to_a_checkpoint_runs_again_after_the_gradient_of_the_checkpoint():
    assert lines(chain(checkpoint=True)) == [
        'a.recomputed = f32[8] tanh(x), layer="a", phase=backward, recomputed=true, after={gb}',
        # The sign, which needs no gradient, waits with the value that it reads.
        'sign = f32[8] sign(a.recomputed), layer="a", phase=backward',
    ]
    text = to_text(recomputed(chain(checkpoint=True), recompute=True).module)
    assert text.index(" gb =") < text.index(" a.recomputed =") < text.index(" sign =")
    assert "opt-barrier" not in text


def test_layers_and_places_are_checkpoints_as_well():
    wanted = lines(chain(checkpoint=True))
    assert lines(chain(), layers=["b"]) == lines(chain(), cuts=[4]) == wanted


def test_without_checkpoints_they_are_where_the_fewest_bytes_are_live():
    assert lines(chain()) == lines(chain(), layers=["b"])


def test_nothing_runs_again_unless_it_is_asked_for():
    result = recomputed(chain(checkpoint=True), recompute=False).module
    assert to_text(result) == to_text(marks.without_checkpoints(chain(checkpoint=True)))


@pytest.mark.parametrize(
    ("first", "operands"),
    [
        ("dropout(x, key)", "x, key"),  # From the seed that was drawn, not from the next one.
        ("rng-bit-generator(key)", "key"),
    ],
)
def test_random_numbers_are_drawn_again_from_the_seed_of_the_forward_pass(first, operands):
    module = chain(checkpoint=True, seeds="key = f32[8] cosine(s)", first=first)
    again = lines(module)[0]
    assert f"a.recomputed = f32[8] {first.partition('(')[0]}({operands})" in again


@pytest.mark.parametrize("first", ["rng(x, x)", "host-call(x)", "custom-call(x)", "negate(s)"])
def test_what_would_give_another_value_is_kept(first):
    assert lines(chain(checkpoint=True, first=first)) == []


def test_scopes_that_keras_rematerializes_run_again_whatever_the_options_say():
    region = f', op_name="model/{marks.REMATERIALIZED}_1/Tanh"'
    module = chain(first="tanh(x)" + region)
    module = parse(to_text(module).replace('tanh(a), layer="b"', f'tanh(a){region}, layer="b"'))
    result = recomputed(module, recompute=False).module
    again = [one.name for one in result.entry_computation if one.recomputed]
    assert again == ["a.recomputed"]  # Others read the last value of the scope.


def test_a_layer_that_does_not_exist_is_an_error():
    message = (
        r"Activations cannot be kept after 'd', 'e': the forward pass does not have one layer "
        r"of that name. It has a, b, c. Received: \['d', 'b', 'e'\]."
    )
    with pytest.raises(ValueError, match=message):
        recomputed(chain(), recompute=True, layers=["d", "b", "e"])


def without_copies(module):
    """The lines of a module in which readers of a recomputed value read the original."""
    text = to_text(module).replace(".recomputed", "").replace(", recomputed=true", "")
    lines = (line.partition(", after=")[0] for line in text.splitlines())
    return {line.replace(", phase=backward", "") for line in lines}


@pytest.mark.parametrize(
    ("name", "layer", "opcode"),
    [
        ("cifar10", "sequential/dense", "convolution"),
        ("dropout", "dropout_net/dense_3", "rng-bit-generator"),
    ],
)
def test_a_network_computes_the_same_with_the_values_that_it_computes_again(name, layer, opcode):
    module = modules.text(name)
    result = recomputed(module, recompute=True, layers=[layer]).module
    verify(result)
    assert opcode in {one.opcode for one in result.entry_computation if one.recomputed}
    assert without_copies(result) == without_copies(module)


def test_memory_falls_and_cycles_rise_by_those_of_the_steps_that_run_again():
    module = modules.text("cifar10")
    chip = target("bow", 64)
    kept = compile_program(module, CompilerOptions(target=chip, out_of_memory="report"))
    options = CompilerOptions(target=chip, out_of_memory="report", recompute=True)
    again = compile_program(module, options)
    assert again.recompute
    assert not kept.recompute
    (before,), (after,) = kept.stages, again.stages
    again_cycles = sum(step.cycles for step in after.program.steps if step.recomputed)
    assert after.recomputed_cycles == again_cycles > 0
    assert again.cycles == kept.cycles + after.recomputed_cycles
    assert after.program.kept_activations < before.program.kept_activations
    assert before.recomputed_cycles == 0


class TestStages:
    def test_fifos_hold_the_inputs_of_a_stage_and_its_checkpoints(self):
        kept = compiled(4, micro_batches=8)
        inputs = compiled(4, micro_batches=8, recompute=True)
        keeps = CompilerOptions(
            target=target("bow", 64),
            out_of_memory="report",
            checkpoints=("sequential/conv2d_1",),
        )
        between = compiled(4, micro_batches=8, recompute=True, options=keeps)
        fifo_bytes = [p.stages[0].fifo_bytes for p in (inputs, between, kept)]
        assert fifo_bytes == sorted(set(fifo_bytes))
        again = [p.stages[0].recomputed_cycles for p in (inputs, between, kept)]
        assert again == sorted(set(again), reverse=True)
        assert again[-1] == 0

    def test_a_mode_without_checkpoints_keeps_none(self):
        keeps = CompilerOptions(
            target=target("bow", 64), out_of_memory="report", checkpoints=("sequential/conv2d_1",)
        )
        ignored = compiled(4, recompute=True, keeps_checkpoints=False, options=keeps)
        assert ignored.stages[0].fifo_bytes == compiled(4, recompute=True).stages[0].fifo_bytes

    def test_the_last_stage_recomputes_what_leads_to_its_checkpoints(self):
        keeps = CompilerOptions(
            target=target("bow", 64), out_of_memory="report", checkpoints=("sequential/conv2d_3",)
        )
        program = compiled(3, recompute=True, options=keeps)
        layers = {step.layer for step in program.stages[1].program.steps if step.recomputed}
        assert layers == {"sequential/conv2d_2"} | (
            layers & {"sequential/max_pooling2d", "sequential/dropout"}
        )
        assert compiled(3, recompute=True).stages[1].recomputed_cycles == 0


def test_a_stage_recomputes_after_what_it_hands_on_before():
    module = parse(
        f"""
        parameter 0 input "x"
        ENTRY main {{
          x = f32[8] parameter(0)
          a = f32[8] tanh(x), layer="a"
          sent = f32[8] sine(a), layer="b"
          read = f32[8] cosine(sent), layer="a"
          first = f32[8] tanh(a), layer="b"
          b = f32[8] tanh(first), layer="b"
          c = f32[8] tanh(b), layer="c"
          c_end = f32[8] opt-barrier(c), {KEEP}
          d = f32[8] tanh(c_end), layer="d"
          g = f32[8] sine(d), layer="d", {BACK}
          gd = f32[8] multiply(g, d), layer="d", {BACK}
          gc = f32[8] multiply(gd, c_end), layer="c", {BACK}
          gb = f32[8] multiply(gc, b), layer="b", {BACK}
          gf = f32[8] multiply(gb, first), layer="b", {BACK}
          metric = f32[8] negate(d), layer="d"
          shown = f32[8] add(metric, read), layer="a"
          ROOT all = (f32[8], f32[8]) tuple(gf, shown)
        }}
        """
    )
    in_first = ("a", "read", "shown")
    stage_of = {i.name: int(i.name not in in_first) for i in module.entry_computation.instructions}
    for unplaced in ("x", "all"):
        del stage_of[unplaced]
    result = recomputed(module, recompute=True, stage_of=stage_of, stages=2).module
    again = {one.name: set(one.after) for one in result.entry_computation if one.recomputed}
    # The metric is handed on, too, but later than the gradients that read what is recomputed.
    assert again == {name: {"gc", "sent"} for name in ("first.recomputed", "b.recomputed")}
