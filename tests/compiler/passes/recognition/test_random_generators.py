"""Generators written out as arithmetic become generators."""

import pytest

from ipu_tf.compiler.hlo import parse, to_text, verify
from ipu_tf.compiler.passes import dead_code
from ipu_tf.compiler.passes.recognition import random_generators
from tests.compiler import modules


def rounds(count, op_type):
    """The text of `count` mixing rounds of a seed, whose bits become floats outside of them."""
    named = f'op_name="dropout/bits", op_type="{op_type}"'
    lines = [
        "seed = u32[2] parameter(0)",
        f"k = u32[] constant(7), {named}",
        f"s = u32[2] broadcast(k), dimensions={{}}, {named}",
        f"b0 = u32[2] xor(seed, s), {named}",
    ]
    lines += [
        f"b{i} = u32[2] {'add' if i % 2 else 'xor'}(b{i - 1}, s), {named}" for i in range(1, count)
    ]
    lines.append(
        f'ROOT u = f32[2] convert(b{count - 1}), op_name="dropout/uniform", op_type="Cast"'
    )
    body = "\n".join(lines)
    return f"ENTRY main {{\n{body}\n}}"


def run(text):
    module = dead_code.run(random_generators.run(parse(text)))
    verify(module)
    return module.entry_computation


@pytest.mark.parametrize("op_type", ["StatelessRandomGetKeyCounter", "RngReadAndSkip"])
def test_rounds_become_a_generator_of_the_bits(op_type):
    seed, bits, uniform = run(rounds(20, op_type))
    assert (bits.opcode, bits.operands, str(bits.type)) == (
        "rng-bit-generator",
        (seed.name,),
        "u32[2]",
    )
    assert bits.op_name == "dropout/bits"
    assert uniform.operands == (bits.name,)


@pytest.mark.parametrize(
    ("count", "op_type"), [(20, "BitwiseXor"), (8, "StatelessRandomGetKeyCounter")]
)
def test_other_arithmetic_stays(count, op_type):
    text = rounds(count, op_type)
    assert [i.opcode for i in run(text)] == [i.opcode for i in parse(text).entry_computation]


def test_bits_read_the_seeds_they_depend_on():
    # One op scrambles its seed, draws with it, and shifts what it has drawn.
    named = 'op_name="draw", op_type="StatelessRandomNormal"'
    lines = rounds(20, "StatelessRandomNormal").split("\n")[1:-2]
    drawing = [
        f"drawn = (u32[2], u32[8]) rng-bit-generator(b19), {named}",
        f"part = u32[8] get-tuple-element(drawn), tuple_index=1, {named}",
        f"nine = u32[8] iota(), iota_dimension=0, {named}",
        f"ROOT shifted = u32[8] shift-right-logical(part, nine), {named}",
    ]
    lines = [line.replace("dropout/bits", "draw") for line in lines]
    module = run("\n".join(["ENTRY main {", *lines, *drawing, "}"]))
    assert [(i.opcode, i.operands) for i in module][1:3] == [
        ("rng-bit-generator", ("seed",)),
        ("rng-bit-generator", ("b19",)),
    ]


def test_two_ops_are_two_generators():
    one = rounds(20, "StatelessRandomGetKeyCounter").replace("ROOT u", "u")
    lines = one.replace("ENTRY main {\n", "").replace("\n}", "").split("\n")[1:]
    two = "\n".join(line.replace("dropout/bits", "dropout_1/bits") for line in lines)
    for name in ["k", "s", "u", *(f"b{i}" for i in range(20))]:
        two = two.replace(f"{name} = ", f"{name}_1 = ")
        for end in (",", ")"):
            two = two.replace(f"({name}{end}", f"({name}_1{end}")
            two = two.replace(f", {name}{end}", f", {name}_1{end}")
    text = one.removesuffix("\n}") + "\n" + two + "\nROOT t = f32[2] add(u, u_1)\n}"
    opcodes = [i.opcode for i in run(text)]
    assert opcodes.count("rng-bit-generator") == 2
    assert "xor" not in opcodes


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("name", ["dropout", "embedding"])
def test_dropout_leaves_no_generator_arithmetic(name):
    module = dead_code.run(random_generators.run(modules.module(name)))
    verify(module)
    opcodes = [i.opcode for i in module.entry_computation if "dropout" in i.op_name]
    assert "rng-bit-generator" in opcodes
    assert "xor" not in opcodes
    assert "u32[8,32]" in to_text(module) or name != "dropout"
