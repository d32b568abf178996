"""A scale and a shift of channels become part of the convolution that nothing else reads."""

import pytest

from ipu_tf.compiler.passes import dead_code
from ipu_tf.compiler.passes.recognition import norm_folding
from tests.compiler.passes.before_after import check, entry

INPUTS = """
 x = f16[4,8,8,3] parameter(0)
 w = f16[3,3,3,16] parameter(1)
 a = f32[16] parameter(2)
 b = f32[16] parameter(3)
"""
LABELS = "window={size=3x3}, convolution_dimension_numbers=b01f_01io->b01f"
SCALED = f"""{INPUTS}
 conv = f16[4,6,6,16] convolution(x, w), {LABELS}
 wide = f32[4,6,6,16] convert(conv)
 scales = f32[4,6,6,16] broadcast(a), dimensions={{3}}
 product = f32[4,6,6,16] multiply(wide, scales)
 shifts = f32[4,6,6,16] broadcast(b), dimensions={{3}}
 sum = f32[4,6,6,16] add(product, shifts)
"""


def run(module):
    return dead_code.run(norm_folding.run(module))


def test_the_filter_is_scaled_and_the_shift_is_a_bias():
    after = f"""{INPUTS}
 conv.folded.scale.cast = f16[16] convert(a)
 conv.folded.scale = f16[3,3,3,16] broadcast(conv.folded.scale.cast), dimensions={{3}}
 conv.folded.filter = f16[3,3,3,16] multiply(w, conv.folded.scale)
 conv.folded = f16[4,6,6,16] convolution(x, conv.folded.filter), {LABELS}
 conv.folded.bias.cast = f16[16] convert(b)
 conv.folded.bias = f16[4,6,6,16] broadcast(conv.folded.bias.cast), dimensions={{3}}
 ROOT y = f16[4,6,6,16] add(conv.folded, conv.folded.bias)
"""
    check(run, entry(f"{SCALED}\n ROOT y = f16[4,6,6,16] convert(sum)"), entry(after))


def test_a_bias_before_the_scale_is_scaled_with_it():
    body = SCALED.replace(
        " wide = f32[4,6,6,16] convert(conv)",
        """ c = f16[16] parameter(4)
 biases = f16[4,6,6,16] broadcast(c), dimensions={3}
 biased = f16[4,6,6,16] add(conv, biases)
 wide = f32[4,6,6,16] convert(biased)""",
    )
    after = f"""{INPUTS}
 c = f16[16] parameter(4)
 conv.folded.scale.cast = f16[16] convert(a)
 conv.folded.scale = f16[3,3,3,16] broadcast(conv.folded.scale.cast), dimensions={{3}}
 conv.folded.filter = f16[3,3,3,16] multiply(w, conv.folded.scale)
 conv.folded = f16[4,6,6,16] convolution(x, conv.folded.filter), {LABELS}
 conv.folded.before.cast = f32[16] convert(c)
 conv.folded.scaled = f32[16] multiply(conv.folded.before.cast, a)
 conv.folded.shift = f32[16] add(conv.folded.scaled, b)
 conv.folded.bias.cast = f16[16] convert(conv.folded.shift)
 conv.folded.bias = f16[4,6,6,16] broadcast(conv.folded.bias.cast), dimensions={{3}}
 ROOT y = f16[4,6,6,16] add(conv.folded, conv.folded.bias)
"""
    check(run, entry(f"{body}\n ROOT y = f16[4,6,6,16] convert(sum)"), entry(after))


@pytest.mark.parametrize(
    "body",
    [
        f"{SCALED}\n y = f16[4,6,6,16] convert(sum)\n"
        " ROOT r = (f16[4,6,6,16], f16[4,6,6,16]) tuple(y, conv)",
        f"{SCALED}\n ROOT y = f16[4,6,6,16] convert(sum)".replace(
            "dimensions={3}", "dimensions={1}"
        )
        .replace("a = f32[16]", "a = f32[6]")
        .replace("b = f32[16]", "b = f32[6]"),
    ],
)
def test_values_that_others_read_or_rows_stay(body):
    check(norm_folding.run, entry(body), entry(body))
