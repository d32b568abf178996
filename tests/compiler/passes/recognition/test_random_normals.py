"""Instructions that turn random bits into normal numbers become one draw."""

import pytest
import tensorflow as tf

from ipu_tf.compiler.passes import dead_code
from ipu_tf.compiler.passes.recognition import random_normals
from ipu_tf.compiler.passes.simplify import simplify
from tests.compiler import modules
from tests.compiler.passes.before_after import check, entry


def run(module):
    return dead_code.run(random_normals.run(module))


def named(lines, op_type, op_name="noise/draw"):
    metadata = f', op_name="{op_name}", op_type="{op_type}"'
    return "\n".join(line + metadata for line in lines)


SOFTWARE = (
    "drawn = (u64[3], u32[2,4]) rng-bit-generator(seed)",
    "bits = u32[2,4] get-tuple-element(drawn), tuple_index=1",
    "uniform = f32[2,4] convert(bits)",
    "wave = f32[2,4] sine(uniform)",
    "numbers = f32[8] reshape(wave)",
)


@pytest.mark.parametrize(
    ("op_type", "distribution"),
    [("StatelessRandomNormalV2", "normal"), ("StatelessTruncatedNormalV2", "truncated_normal")],
)
def test_numbers_are_drawn_from_the_seed(op_type, distribution):
    seed, root = "seed = u64[3] parameter(0)\n", "\nROOT r = f32[8] negate(numbers)"
    draw = f'numbers = f32[8] rng(seed), distribution="{distribution}"'
    check(
        run,
        entry(seed + named(SOFTWARE, op_type) + root),
        entry(seed + named([draw], op_type) + root),
    )


def test_two_ops_draw_from_their_own_seeds():
    def other(line):
        for name in ("drawn", "bits", "uniform", "wave", "numbers", "seed"):
            line = line.replace(name, f"{name}_1")
        return line

    op_type = "StatelessRandomNormalV2"
    seeds = "seed = u64[3] parameter(0)\nseed_1 = u64[3] parameter(1)\n"
    root = "\nROOT r = f32[8] add(numbers, numbers_1)"
    draws = [f'numbers{end} = f32[8] rng(seed{end}), distribution="normal"' for end in ("", "_1")]
    again = named(map(other, SOFTWARE), op_type, "noise_1/draw")
    check(
        run,
        entry(f"{seeds}{named(SOFTWARE, op_type)}\n{again}{root}"),
        entry(
            f"{seeds}{named(draws[:1], op_type)}\n{named(draws[1:], op_type, 'noise_1/draw')}{root}"
        ),
    )


@pytest.mark.parametrize("op_type", ["StatelessRandomUniformV2", "Sin"])
def test_what_other_ops_compute_of_bits_stays(op_type):
    text = entry(f"seed = u64[3] parameter(0)\n{named(SOFTWARE, op_type)}")
    text = text.replace("numbers =", "ROOT numbers =")
    check(run, text, text)


def test_numbers_that_need_no_bits_stay():
    line = named(["ROOT t = f32[8] sine(x)"], "StatelessRandomNormalV2")
    text = entry(f"x = f32[8] parameter(0)\n{line}")
    check(run, text, text)


DRAWS = {
    "normal": lambda seed: tf.random.stateless_normal((7, 30), seed, stddev=3.0),
    "normal of halves": lambda seed: tf.random.stateless_normal((8, 30), seed, dtype=tf.float16),
    "normal of one op": lambda seed: tf.raw_ops.StatelessRandomNormal(shape=(8, 30), seed=seed),
    "normal of a global seed": lambda seed: tf.random.normal((8, 30)),
    "truncated_normal": lambda seed: tf.random.stateless_truncated_normal((8, 30), seed),
    "truncated_normal of a global seed": lambda seed: tf.random.truncated_normal((8, 30)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_normals_of_tensorflow_are_drawn(name):
    module = simplify(modules.traced(DRAWS[name], tf.constant([1, 2])).module)
    draws = [i for i in module.entry_computation if i.opcode == "rng"]
    assert [i.attributes["distribution"] for i in draws] == [name.partition(" ")[0]]
    opcodes = {i.opcode for computation in module.computations.values() for i in computation}
    assert opcodes.isdisjoint({"sine", "cosine", "log", "log-plus-one", "sqrt", "xor"})


def test_other_bounds_stay_arithmetic():
    def draw(seed):
        return tf.random.stateless_parameterized_truncated_normal(
            (8, 30), seed, minvals=-1.0, maxvals=1.0
        )

    module = simplify(modules.traced(draw, tf.constant([1, 2])).module)
    opcodes = {i.opcode for i in module.entry_computation}
    assert "rng" not in opcodes
    assert "rng-bit-generator" in opcodes
