"""A comparison and the choice of a value or zero become one gate."""

import pytest

from ipu_tf.compiler.passes import dead_code
from ipu_tf.compiler.passes.recognition import gates
from tests.compiler.passes.before_after import check, entry

INPUTS = """ y = f16[8] parameter(0)
 g = f16[8] parameter(1)
 zero = f16[] constant(0.0)
 zeros = f16[8] broadcast(zero), dimensions={}
"""
READ = " y = f16[8] parameter(0)\n g = f16[8] parameter(1)\n"
MASK = ' mask = pred[8] compare(y, zeros), comparison_direction="GT"\n'


def run(module):
    return dead_code.run(gates.run(module))


def test_the_gradient_of_a_relu_is_a_gate():
    check(
        run,
        entry(f"{INPUTS}{MASK} ROOT r = f16[8] select(mask, g, zeros)"),
        entry(f'{READ} ROOT r = f16[8] gate(y, g), comparison_direction="GT", threshold=0.0'),
    )


@pytest.mark.parametrize(
    "rest",
    [
        f"{MASK} ROOT r = f16[8] select(mask, g, y)",
        f"{MASK} s = f16[8] select(mask, g, zeros)\n ROOT r = (f16[8], pred[8]) tuple(s, mask)",
    ],
)
def test_other_choices_stay(rest):
    check(gates.run, entry(f"{INPUTS}{rest}"), entry(f"{INPUTS}{rest}"))
