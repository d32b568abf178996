import numpy as np
import pytest

from ipu_tf.machine import target, tile_memory, workers
from ipu_tf.machine.vertices.vertex import dealt_cycles

GC2 = target("gc2")
BOW = target("bow")


@pytest.mark.parametrize(("bits", "rate"), [(32, 4), (64, 8), (128, 16)])
def test_load_rates(bits, rate):
    assert tile_memory.load_bytes_per_cycle(BOW, bits) == rate


def test_widths_that_do_not_exist():
    with pytest.raises(ValueError, match=r"Loads are of 32, 64, 128 bits\. Received: 16"):
        tile_memory.read_bytes_per_second(BOW, 16)
    with pytest.raises(ValueError, match=r"Stores are of 32 or 64 bits\. Received: 128"):
        tile_memory.write_bytes_per_second(BOW, 128)


def test_writes_are_half_as_fast_as_reads():
    written = tile_memory.write_bytes_per_second(GC2, 64)
    assert written == tile_memory.read_bytes_per_second(GC2, 128) / 2


def test_a_stream_is_bound_by_two_loads_and_a_store():
    assert tile_memory.stream_bytes_per_second(BOW) == pytest.approx(65.4e12, rel=0.01)
    halves, words = (
        tile_memory.stream_flops_per_second(BOW, dtype) for dtype in ("float16", "float32")
    )
    assert halves == 2 * words


def test_the_slowest_worker_counts():
    assert dealt_cycles(6, BOW, slots_per_item=10, start_slots=2) == 6 * 12
    assert dealt_cycles(7, BOW, slots_per_item=10, start_slots=2) == 6 * 22
    np.testing.assert_array_equal(workers.slowest_share(np.array([0, 1, 6, 7]), BOW), [0, 1, 1, 2])
