"""Written-out error functions become one instruction in the type of their operand."""

from ipu_tf.compiler.passes import dead_code
from ipu_tf.compiler.passes.recognition import error_functions
from tests.compiler.passes.before_after import check, entry


def run(module):
    return dead_code.run(error_functions.run(module))


def test_a_polynomial_in_float32_becomes_a_function_of_halves():
    op = ', op_name="Erfc", op_type="Erfc"'
    before = f"""
 x = f16[8] parameter(0)
 wide = f32[8] convert(x){op}
 c = f32[] constant(0.1){op}
 cs = f32[8] broadcast(c), dimensions={{}}{op}
 square = f32[8] multiply(wide, wide){op}
 product = f32[8] multiply(square, cs){op}
 ROOT r = f16[8] convert(product){op}
"""
    after = f" x = f16[8] parameter(0)\n ROOT r = f16[8] erf(x), complement=true{op}"
    check(run, entry(before), entry(after))


def test_a_region_with_two_results_stays():
    op = ', op_name="Erf", op_type="Erf"'
    body = f"""
 x = f32[8] parameter(0)
 square = f32[8] multiply(x, x){op}
 cube = f32[8] multiply(square, x){op}
 ROOT r = (f32[8], f32[8]) tuple(square, cube)
"""
    check(error_functions.run, entry(body), entry(body))
