"""Where transposed tensors go before and after, and what that costs."""

import pytest

from ipu_tf.compiler.lowering.transposition import brought, moved, transposition
from ipu_tf.machine.target import target
from ipu_tf.machine.vertices import rearranged_cycles
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.traffic import NOTHING

WHERE = Placement(elements=4096, element_bytes=2, tiles=16)
TARGET = target("bow")


def transposed(**how):
    return transposition(WHERE, "f16", TARGET, **how)


def test_what_the_vertex_transposes_changes_its_layout_once():
    traffic = brought(WHERE, WHERE, transposed(by_elements=False, filled=1.5))
    assert (traffic.received_bytes, traffic.sent_bytes, traffic.total_bytes) == (512, 512, 8192)
    assert traffic.rearranged_cycles == rearranged_cycles(768, 8)


@pytest.mark.parametrize(
    "how",
    [None, {"by_elements": True}, {"by_elements": False, "in_place": True}],
    ids=["not transposed", "by elements", "in place"],
)
def test_other_aligned_operands_stay(how):
    assert brought(WHERE, WHERE, how and transposed(**how)) == NOTHING


def test_traffic_of_operands_adds_up():
    one = transposed(by_elements=False)
    other = Placement(elements=4096, element_bytes=2, first_tile=16, tiles=16)
    both = brought(WHERE, WHERE, one) + brought(other, WHERE, None)
    assert moved((WHERE, other), WHERE, {0: one}) == both
