"""Sums read float16 themselves; what else reads a cast value keeps the cast."""

from ipu_tf.compiler.compile import compile_program
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.hlo import parse
from ipu_tf.compiler.passes import narrow_sums, simplify
from ipu_tf.machine import target
from tests.compiler.passes.before_after import check, entry

FUNCTIONS = """
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
largest {
  c = f32[] parameter(0)
  d = f32[] parameter(1)
  ROOT m = f32[] maximum(c, d)
}
"""


def module(read, cast="w = f32[512,512] convert(x)", reduction="sum", more="", result="r"):
    return entry(
        f"""
        x = f16[512,512] parameter(0)
        zero = f32[] constant(0)
        {cast}
        r = f32[512] reduce({read}, zero), dimensions={{1}}, calls={{{reduction}}}
        {more}
        ROOT all = (f32[512]) tuple({result})
        """,
        FUNCTIONS,
    )


def test_a_sum_reads_what_was_cast_for_it():
    check(narrow_sums.run, module("w"), module("x", cast=""))


def test_other_reductions_keep_the_cast():
    kept = module("w", reduction="largest")
    check(narrow_sums.run, kept, kept)


def test_a_cast_that_others_read_stays():
    more = """e = f32[512,512] exponential(w)
    q = f32[512] reduce(e, zero), dimensions={1}, calls={sum}"""
    kept = module("w", more=more, result="q")
    check(narrow_sums.run, kept, kept)


def test_no_wide_values_lie_in_memory_and_partial_sums_stay_wide(monkeypatch):
    chip = CompilerOptions(target=target("bow", 64))
    text = module("w").replace("f32[512] ", "f32[] ").replace("(f32[512])", "(f32[])")
    before = parse(text.replace("dimensions={1}", "dimensions={0,1}"))
    program = compile_program(before, chip)
    largest = max(tensor.bytes for tensor in program.tensors if tensor.category == "activations")
    assert largest < 2 * 512 * 512
    partials = [s for step in program.steps for s in step.supersteps if s.name == "reduce partials"]
    assert partials[0].exchange_bytes % 4 == 0

    passes = [one for one in simplify._PASSES if one is not narrow_sums.run]
    monkeypatch.setattr(simplify, "_PASSES", tuple(passes))
    wide = compile_program(before.replace(name="wide"), chip)
    assert program.cycles < wide.cycles
    assert program.memory.max_tile_bytes.max() < wide.memory.max_tile_bytes.max()
