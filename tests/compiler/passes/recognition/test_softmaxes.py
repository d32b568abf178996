"""Softmaxes multiply by the inverse of their sums."""

import pytest

from ipu_tf.compiler.passes.recognition import softmaxes
from tests.compiler.passes.before_after import check, entry

SUMS = " x = f16[8,64] parameter(0)\n s = f16[8] parameter(1)\n"
SPREAD = " b = f16[8,64] broadcast(s), dimensions={0}\n"


def test_a_softmax_divides_its_few_sums():
    before = SUMS + SPREAD + ' ROOT r = f16[8,64] divide(x, b), op_type="Softmax"'
    after = (
        ' r.1 = f16[] constant(1), op_type="Softmax"\n'
        ' r.2 = f16[8] broadcast(r.1), dimensions={}, op_type="Softmax"\n'
        ' r.3 = f16[8] divide(r.2, s), op_type="Softmax"\n'
        " r.4 = f16[8,64] broadcast(r.3), dimensions={0}\n"
        ' ROOT r = f16[8,64] multiply(x, r.4), op_type="Softmax"'
    )
    check(softmaxes.run, entry(before), entry(SUMS + SPREAD + after))


@pytest.mark.parametrize(
    "division",
    [
        SPREAD + ' ROOT r = f16[8,64] divide(x, b), op_type="RealDiv"',
        ' ROOT r = f16[8,64] divide(x, x), op_type="Softmax"',
        " b = f16[8,1] broadcast(s), dimensions={0}\n ROOT r = f16[8,1] divide(b, b), "
        'op_type="Softmax"',
    ],
)
def test_other_divisions_stay(division):
    check(softmaxes.run, entry(SUMS + division), entry(SUMS + division))
