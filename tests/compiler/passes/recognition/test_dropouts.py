"""Random bits, a comparison and a choice become one dropout, and another for the gradients."""

from ipu_tf.compiler.passes import dead_code
from ipu_tf.compiler.passes.recognition import dropouts
from tests.compiler.passes.before_after import check, entry

INPUTS = """ x = f16[8] parameter(0)
 g = f16[8] parameter(1)
 seed = u64[3] parameter(2)
"""
MASK = """ state = (u64[3], u32[8]) rng-bit-generator(seed), rng_algorithm="philox"
 bits = u32[8] get-tuple-element(state), tuple_index=1
 numbers = f32[8] convert(bits)
 rate = f32[] constant(0.1)
 rates = f32[8] broadcast(rate), dimensions={}
 mask = pred[8] compare(numbers, rates), comparison_direction="GE"
 zero = f16[] constant(0.0)
 zeros = f16[8] broadcast(zero), dimensions={}
 scale = f16[] constant(1.11)
 scales = f16[8] broadcast(scale), dimensions={}
"""


def run(module):
    return dead_code.run(dropouts.run(module))


def test_both_passes_draw_the_mask():
    before = f"""{INPUTS}{MASK}
 scaled = f16[8] multiply(x, scales)
 y = f16[8] select(mask, scaled, zeros)
 kept = f16[8] select(mask, g, zeros)
 dx = f16[8] multiply(kept, scales)
 ROOT r = (f16[8], f16[8]) tuple(y, dx)
"""
    after = f"""{INPUTS}
 y = f16[8] dropout(x, seed)
 kept = f16[8] dropout(g, seed)
 ROOT r = (f16[8], f16[8]) tuple(y, kept)
"""
    check(run, entry(before), entry(after))


def test_a_mask_that_others_read_stays():
    body = f"""{INPUTS}{MASK}
 y = f16[8] select(mask, x, zeros)
 ROOT r = (f16[8], pred[8]) tuple(y, mask)
"""
    check(dropouts.run, entry(body), entry(body))


def test_a_mask_of_values_is_no_dropout():
    body = f"""{INPUTS}{MASK}
 sums = f32[8] convert(x)
 other = pred[8] compare(sums, rates), comparison_direction="GE"
 ROOT y = f16[8] select(other, x, zeros)
"""
    check(dropouts.run, entry(body), entry(body))
