"""Norms that are spelled out in float32 become sums and applications in the data's own type."""

import pytest

from ipu_tf.compiler.hlo import parse
from ipu_tf.compiler.passes import dead_code
from ipu_tf.compiler.passes.recognition import norms
from tests.compiler.passes.before_after import check

ADD = "add {\na = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)\n}\n"

STATISTICS = """
 x = f16[4,9,16] parameter(0)
 zero = f32[] constant(0.0)
 count = f32[] constant(36.0)
 counts = f32[16] broadcast(count), dimensions={}
 cast = f32[4,9,16] convert(x), layer="n"
 sum = f32[16] reduce(cast, zero), calls={add}, dimensions={0,1}, layer="n"
 mean = f32[16] divide(sum, counts), layer="n"
 means = f32[4,9,16] broadcast(mean), dimensions={2}, layer="n"
 centred = f32[4,9,16] subtract(cast, means), layer="n"
 squares = f32[4,9,16] multiply(centred, centred), layer="n"
 ssq = f32[16] reduce(squares, zero), calls={add}, dimensions={0,1}, layer="n"
 variance = f32[16] divide(ssq, counts), layer="n"
 deviation = f32[16] rsqrt(variance), layer="n"
"""
APPLIED = """
 scales = f32[4,9,16] broadcast(deviation), dimensions={2}, layer="n"
 scaled = f32[4,9,16] multiply(centred, scales), layer="n"
 ROOT y = f16[4,9,16] convert(scaled), layer="n"
"""
SUMS = """sum.norm {
 sum.norm.x = f16[4,9,16] parameter(0)
 sum.norm.zero = f32[] constant(0.0)
 sum.norm.cast = f32[4,9,16] convert(sum.norm.x)
 ROOT sum.norm.sum = f32[16] reduce(sum.norm.cast, sum.norm.zero), calls={add}, dimensions={0,1}
}
ssq.norm {
 ssq.norm.x = f16[4,9,16] parameter(0)
 ssq.norm.mean = f32[16] parameter(1)
 ssq.norm.zero = f32[] constant(0.0)
 ssq.norm.cast = f32[4,9,16] convert(ssq.norm.x)
 ssq.norm.means = f32[4,9,16] broadcast(ssq.norm.mean), dimensions={2}
 ssq.norm.centred = f32[4,9,16] subtract(ssq.norm.cast, ssq.norm.means)
 ssq.norm.squares = f32[4,9,16] multiply(ssq.norm.centred, ssq.norm.centred)
 ROOT ssq.norm.ssq = f32[16] reduce(ssq.norm.squares, ssq.norm.zero), calls={add}, dimensions={0,1}
}
"""
RESULT = """y.norm {
 y.norm.x = f16[4,9,16] parameter(0)
 y.norm.mean = f32[16] parameter(1)
 y.norm.deviation = f32[16] parameter(2)
 y.norm.cast = f32[4,9,16] convert(y.norm.x)
 y.norm.means = f32[4,9,16] broadcast(y.norm.mean), dimensions={2}
 y.norm.centred = f32[4,9,16] subtract(y.norm.cast, y.norm.means)
 y.norm.scales = f32[4,9,16] broadcast(y.norm.deviation), dimensions={2}
 y.norm.scaled = f32[4,9,16] multiply(y.norm.centred, y.norm.scales)
 ROOT y.norm.y = f16[4,9,16] convert(y.norm.scaled)
}
"""
NORMALISED = """
 x = f16[4,9,16] parameter(0)
 count = f32[] constant(36.0)
 counts = f32[16] broadcast(count), dimensions={}
 sum = f32[16] norm-sum(x), calls={sum.norm}, term="sum", kept_dimensions={2}, layer="n"
 mean = f32[16] divide(sum, counts), layer="n"
 ssq = f32[16] norm-sum(x, mean), calls={ssq.norm}, term="square", kept_dimensions={2}, layer="n"
 variance = f32[16] divide(ssq, counts), layer="n"
 deviation = f32[16] rsqrt(variance), layer="n"
 ROOT y = f16[4,9,16] norm-apply(x, mean, deviation), calls={y.norm}, kept_dimensions={2}, layer="n"
"""
GRADIENT = """
 dy = f16[4,9,16] parameter(1)
 scales = f32[4,9,16] broadcast(deviation), dimensions={2}, layer="n"
 cast.1 = f32[4,9,16] convert(dy), layer="n", phase=backward
 bias = f32[16] reduce(cast.1, zero), calls={add}, dimensions={0,1}, layer="n", phase=backward
 products = f32[4,9,16] multiply(cast.1, centred), layer="n", phase=backward
 gain = f32[16] reduce(products, zero), calls={add}, dimensions={0,1}, layer="n", phase=backward
 gains = f32[4,9,16] broadcast(gain), dimensions={2}, layer="n", phase=backward
 biases = f32[4,9,16] broadcast(bias), dimensions={2}, layer="n", phase=backward
 turned = f32[4,9,16] multiply(centred, gains), layer="n", phase=backward
 less = f32[4,9,16] subtract(cast.1, turned), layer="n", phase=backward
 even = f32[4,9,16] subtract(less, biases), layer="n", phase=backward
 scaled = f32[4,9,16] multiply(even, scales), layer="n", phase=backward
 ROOT dx = f16[4,9,16] convert(scaled), layer="n", phase=backward
"""


def run(module):
    return dead_code.run(norms.run(module))


def opcodes(body):
    """Returns what the entry computes after the pass, by name, with the attributes."""
    module = run(parse(f"{ADD}ENTRY main {{\n{body}\n}}"))
    return {i.name: (i.opcode, dict(i.attributes)) for i in module.entry_computation}


def test_statistics_and_the_normalised_tensor():
    before = f"{ADD}ENTRY main {{\n{STATISTICS}{APPLIED}\n}}"
    check(run, before, f"{ADD}ENTRY main {{\n{NORMALISED}\n}}\n{SUMS}{RESULT}")


def test_a_gradient_reads_the_element_and_its_gradient_in_their_type():
    found = opcodes(STATISTICS + GRADIENT)
    assert found["bias"] == ("norm-sum", {"term": "sum", "kept_dimensions": (2,)})
    expected = {"term": "product", "kept_dimensions": (2,), "whitens": True}
    assert found["gain"] == ("norm-sum", expected)
    assert found["dx"] == ("norm-apply", {"kept_dimensions": (2,)})
    large = {"cast", "cast.1", "centred", "products", "turned", "less", "even", "scaled"}
    assert large.isdisjoint(found)


def test_rows_have_statistics_of_their_own():
    body = """
 x = f32[4,9,16] parameter(0)
 zero = f32[] constant(0.0)
 squares = f32[4,9,16] multiply(x, x), layer="rms"
 ssq = f32[4,9] reduce(squares, zero), calls={add}, dimensions={2}, layer="rms"
 deviation = f32[4,9] rsqrt(ssq), layer="rms"
 scales = f32[4,9,16] broadcast(deviation), dimensions={0,1}, layer="rms"
 ROOT result = f32[4,9,16] multiply(x, scales), layer="rms"
"""
    found = opcodes(body)
    assert found["ssq"] == ("norm-sum", {"term": "square", "kept_dimensions": (0, 1)})
    assert found["result"] == ("norm-apply", {"kept_dimensions": (0, 1)})


@pytest.mark.parametrize(
    "result",
    [
        # Without a root it is no norm.
        'ROOT result = f32[16] negate(ssq), layer="n"',
        # The work of another layer on its element stays with that layer.
        'deviation = f32[16] rsqrt(ssq), layer="n"\n'
        'scales = f32[4,9,16] broadcast(deviation), dimensions={2}, layer="other"\n'
        'ROOT result = f32[4,9,16] multiply(x, scales), layer="other"',
    ],
)
def test_only_norms_are_applied(result):
    body = f"""
 x = f32[4,9,16] parameter(0)
 zero = f32[] constant(0.0)
 squares = f32[4,9,16] multiply(x, x), layer="n"
 ssq = f32[16] reduce(squares, zero), calls={{add}}, dimensions={{0,1}}, layer="n"
 {result}
"""
    assert "norm-apply" not in [opcode for opcode, _ in opcodes(body).values()]


def test_a_tensor_that_meets_the_norm_outside_of_sums_is_no_coefficient():
    body = f"""{STATISTICS}
 y = f32[4,9,16] parameter(1)
 ROOT result = f32[4,9,16] add(centred, y), layer="n"
"""
    found = opcodes(body)
    assert found["result"][0] == "add"
    assert found["centred"][0] == "norm-apply"
