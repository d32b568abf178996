import numpy as np

from ipu_tf.machine.cost import Cost, ceil_div


def test_cost_adds_up_by_kind():
    total = Cost(compute_cycles=1, sync_cycles=2) + Cost(compute_cycles=10, exchange_cycles=100)
    assert total == Cost(compute_cycles=11, exchange_cycles=100, sync_cycles=2)
    assert total.total_cycles == 113


def test_ceil_div():
    np.testing.assert_array_equal(ceil_div(np.arange(1, 8), 3), [1, 1, 1, 2, 2, 2, 3])
