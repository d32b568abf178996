"""Chains of element-wise instructions become fusions; nothing is computed twice."""

import collections

import pytest

from ipu_tf.compiler.hlo import parse, to_text, verify
from ipu_tf.compiler.passes import dead_code, fusion
from ipu_tf.compiler.passes.simplify import simplify
from tests.compiler import modules
from tests.compiler.passes.before_after import check
from tests.grids import mostly_slow


def run(module):
    return dead_code.run(fusion.run(module))


def test_a_chain_with_scalars():
    check(
        run,
        """
        ENTRY main {
          x = f32[4,2] parameter(0)
          b = f32[2] parameter(1)
          bias = f32[4,2] broadcast(b), dimensions={1}
          sum = f32[4,2] add(x, bias)
          zero = f32[] constant(0.0)
          zeros = f32[4,2] broadcast(zero), dimensions={}
          ROOT relu = f32[4,2] maximum(sum, zeros)
        }
        """,
        """
        ENTRY main {
          x = f32[4,2] parameter(0)
          b = f32[2] parameter(1)
          ROOT relu = f32[4,2] fusion(x, b), calls={relu.fused}
        }
        relu.fused {
          relu.fused.x = f32[4,2] parameter(0)
          relu.fused.b = f32[2] parameter(1)
          relu.fused.bias = f32[4,2] broadcast(relu.fused.b), dimensions={1}
          sum = f32[4,2] add(relu.fused.x, relu.fused.bias)
          relu.fused.zero = f32[] constant(0.0)
          relu.fused.zeros = f32[4,2] broadcast(relu.fused.zero), dimensions={}
          ROOT relu.fused.root = f32[4,2] maximum(sum, relu.fused.zeros)
        }
        """,
    )


def test_broadcasts_are_not_shared_in_memory():
    opcodes = entry_after(
        """
        ENTRY main {
          x = f32[4,2] parameter(0)
          b = f32[2] parameter(1)
          wide = f32[4,2] broadcast(b), dimensions={1}
          y = f32[4,2] add(x, wide)
          z = f32[4,2] multiply(x, wide)
          ROOT t = (f32[4,2], f32[4,2]) tuple(y, z)
        }
        """
    )
    assert opcodes == ["parameter", "parameter", "fusion", "fusion", "tuple"]


def test_a_broadcast_that_something_else_reads_stays():
    opcodes = entry_after(
        """
        ENTRY main {
          x = f32[4,2] parameter(0)
          b = f32[2] parameter(1)
          wide = f32[4,2] broadcast(b), dimensions={1}
          y = f32[4,2] add(x, wide)
          ROOT t = (f32[4,2], f32[4,2]) tuple(y, wide)
        }
        """
    )
    assert opcodes == ["parameter", "parameter", "broadcast", "fusion", "tuple"]


def entry_after(text):
    module = run(parse(text))
    verify(module)
    return [i.opcode for i in module.entry_computation]


def test_what_two_read_is_computed_once():
    opcodes = entry_after(
        """
        ENTRY main {
          x = f32[4] parameter(0)
          shared = f32[4] tanh(x)
          a = f32[4] negate(shared)
          b = f32[4] exponential(shared)
          ROOT t = (f32[4], f32[4]) tuple(a, b)
        }
        """
    )
    assert opcodes == ["parameter", "tanh", "negate", "exponential", "tuple"]


def test_what_meets_again_is_one_fusion():
    opcodes = entry_after(
        """
        ENTRY main {
          x = f32[4] parameter(0)
          shared = f32[4] tanh(x)
          a = f32[4] negate(shared)
          b = f32[4] exponential(shared)
          ROOT c = f32[4] add(a, b)
        }
        """
    )
    assert opcodes == ["parameter", "fusion"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('layer="a"', 'layer="b"'),
        ("phase=forward", "phase=backward"),
    ],
)
def test_fusions_keep_to_a_layer_and_phase(first, second):
    opcodes = entry_after(
        f"""
        ENTRY main {{
          x = f32[4] parameter(0)
          a = f32[4] tanh(x), {first}
          ROOT b = f32[4] negate(a), {second}
        }}
        """
    )
    assert opcodes == ["parameter", "tanh", "negate"]


def test_reductions_and_other_sizes_are_borders():
    opcodes = entry_after(
        """
        ENTRY main {
          x = f32[4] parameter(0)
          y = f32[] parameter(1)
          s = f32[] tanh(y)
          t = f32[] negate(s)
          wide = f32[4] broadcast(t), dimensions={}
          ROOT a = f32[4] multiply(x, wide)
        }
        """
    )
    assert opcodes == ["parameter", "parameter", "fusion", "fusion"]


def test_a_value_that_leaves_stays():
    opcodes = entry_after(
        """
        ENTRY main {
          x = f32[4] parameter(0)
          a = f32[4] tanh(x)
          b = f32[4] negate(a)
          ROOT t = (f32[4], f32[4]) tuple(a, b)
        }
        """
    )
    assert opcodes == ["parameter", "tanh", "negate", "tuple"]


@pytest.mark.parametrize("name", mostly_slow(modules.NAMES, modules.FAST))
def test_simplified_steps(name):
    module = modules.module(name)
    simple = simplify(module)
    verify(simple)
    assert to_text(simplify(simple)) == to_text(simple)
    assert contractions(simple) == contractions(dead_code.run(module))
    opcodes = {i.opcode for computation in simple.computations.values() for i in computation}
    assert not opcodes & {"copy", "call", "bitcast"}


def contractions(module):
    found = (i for computation in module.computations.values() for i in computation)
    return collections.Counter(
        (i.opcode, str(i.type), i.op_name) for i in found if i.opcode in ("dot", "convolution")
    )
