import numpy as np
import pytest

from ipu_tf.machine import target
from ipu_tf.machine.cost import Cost, amp_cycles, ceil_div, exchange_cycles, reduce_cycles

BOW = target("bow")


def amp(rows=60, columns=16, passes=1, dtype="float16"):
    grain = 16 if dtype == "float16" else 8
    return amp_cycles(
        rows=rows,
        columns=columns,
        reduction_passes=passes,
        grain=grain,
        dtype=dtype,
        target=BOW,
    )


def test_cost_adds_up_by_kind():
    total = Cost(compute_cycles=1, sync_cycles=2) + Cost(compute_cycles=10, exchange_cycles=100)
    assert total == Cost(compute_cycles=11, exchange_cycles=100, sync_cycles=2)
    assert total.total_cycles == 113


def test_ceil_div():
    np.testing.assert_array_equal(ceil_div(np.arange(1, 8), 3), [1, 1, 1, 2, 2, 2, 3])


def test_amp_streams_a_row_in_four_cycles():
    # 16 x 16 multiply-accumulates at 64 a cycle.
    assert amp(rows=606) - amp(rows=600) == 6 * 4


def test_amp_in_float32_takes_eight_cycles_a_row():
    assert amp(rows=606, dtype="float32") - amp(rows=600, dtype="float32") == 6 * 8


def test_amp_counts_the_slowest_worker():
    assert amp(rows=601) == amp(rows=606)


def test_amp_pads_columns_to_its_width():
    assert amp(columns=1) == amp(columns=16) < amp(columns=17)


def test_exchange_moves_four_bytes_a_cycle_after_a_fixed_start():
    assert exchange_cycles(4000, BOW) == BOW.exchange_fixed_cycles + 1000
    assert exchange_cycles(0, BOW) == 0


def test_one_partial_needs_no_reduction():
    cycles = reduce_cycles(
        elements=np.array([100, 100, 100]), depth=np.array([1, 2, 4]), partial_bytes=4, target=BOW
    )
    assert cycles[0] == 0
    assert 0 < cycles[1] < cycles[2]


@pytest.mark.parametrize("name", ["rows", "columns", "passes"])
def test_amp_never_gets_cheaper_with_size(name):
    cycles = [int(amp(**{name: size})) for size in range(1, 50)]
    assert cycles == sorted(cycles)
    assert cycles[-1] > cycles[0]
