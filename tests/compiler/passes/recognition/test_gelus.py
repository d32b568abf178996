"""Gaussian error linear units and their gradients are known by their values."""

import math

import numpy as np
import pytest

from ipu_tf.compiler.hlo import parse
from ipu_tf.compiler.passes import dead_code
from ipu_tf.compiler.passes.recognition import gelus
from tests.compiler.passes.before_after import check, entry

X = ' x = f16[8] parameter(0), layer="dense"\n'
HALF = " half = f16[] constant(0.5)\n halves = f16[8] broadcast(half), dimensions={}\n"
ONE = " one = f16[] constant(1.0)\n ones = f16[8] broadcast(one), dimensions={}\n"
ROOT = " root = f16[] constant(0.707)\n roots = f16[8] broadcast(root), dimensions={}\n"
EXACT = f"""{X}{HALF}{ONE}{ROOT}
 a = f16[8] multiply(x, roots), layer="act"
 b = f16[8] erf(a), complement=false, layer="act"
 c = f16[8] add(b, ones), layer="act"
 d = f16[8] multiply(x, c), layer="act"
 ROOT r = f16[8] multiply(d, halves), layer="act"
"""
WITH_TANH = f"""{X}{HALF}{ONE}
 k = f16[] constant(0.798)
 ks = f16[8] broadcast(k), dimensions={{}}
 m = f16[] constant(0.0447)
 ms = f16[8] broadcast(m), dimensions={{}}
 square = f16[8] multiply(x, x), layer="act"
 a = f16[8] multiply(square, ms), layer="act"
 b = f16[8] add(a, ones), layer="act"
 c = f16[8] multiply(x, ks), layer="act"
 d = f16[8] multiply(c, b), layer="act"
 e = f16[8] tanh(d), layer="act"
 f = f16[8] add(e, ones), layer="act"
 h = f16[8] multiply(f, halves), layer="act"
 ROOT r = f16[8] multiply(h, x), layer="act"
"""
GRADIENT = f"""{X}{HALF}{ONE}{ROOT}
 g = f16[8] parameter(1), layer="next"
 p = f16[] constant(0.399)
 ps = f16[8] broadcast(p), dimensions={{}}
 a = f16[8] multiply(x, roots), layer="act"
 b = f16[8] erf(a), complement=false, layer="act"
 c = f16[8] add(b, ones), layer="act"
 d = f16[8] multiply(c, halves), layer="act"
 e = f16[8] multiply(a, a), layer="act"
 f = f16[8] negate(e), layer="act"
 h = f16[8] exponential(f), layer="act"
 i = f16[8] multiply(h, ps), layer="act"
 j = f16[8] multiply(i, x), layer="act"
 k = f16[8] add(d, j), layer="act"
 ROOT r = f16[8] multiply(g, k), layer="act"
"""


def run(module):
    return dead_code.run(gelus.run(module))


@pytest.mark.parametrize(("body", "opcode"), [(EXACT, "gelu"), (WITH_TANH, "gelu-tanh")])
def test_a_unit_is_one_instruction(body, opcode):
    check(run, entry(body), entry(f'{X} ROOT r = f16[8] {opcode}(x), layer="act"'))


def test_a_gradient_is_one_instruction():
    after = f'{X} g = f16[8] parameter(1), layer="next"\n ROOT r = f16[8] gelu-grad(x, g)'
    check(run, entry(GRADIENT), entry(f'{after}, layer="act"'))


@pytest.mark.parametrize(("old", "new"), [("constant(0.5)", "constant(0.6)"), ("erf(a)", "erf(x)")])
def test_another_function_stays(old, new):
    body = EXACT.replace(old, new)
    check(gelus.run, entry(body), entry(body))


def test_a_unit_of_the_next_layer_ends_at_its_border():
    body = EXACT.replace("ROOT r", "r")
    body += ' ROOT s = f16[8] multiply(r, halves), layer="next"'
    module = run(parse(entry(body)))
    assert [i.opcode for i in module.entry_computation if i.layer in ("act", "next")] == [
        "gelu",
        "multiply",
    ]


def test_the_error_function_is_close_enough():
    points = np.linspace(-4, 4, 33)
    assert np.allclose(gelus._erf(points), [math.erf(x) for x in points], atol=5e-4)
