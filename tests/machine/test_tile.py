import numpy as np
import pytest

from ipu_tf.machine import target, tile_memory, workers
from ipu_tf.machine.reductions import reduction_supersteps

GC2 = target("gc2")
BOW = target("bow")


def test_regions_fill_the_tile():
    code, data = tile_memory.regions(BOW)
    assert (code.bytes, data.bytes) == (208 * 1024, 416 * 1024)
    assert code.holds_code
    assert not code.interleaved
    assert data.interleaved


def test_code_is_fetched_from_the_first_region():
    assert tile_memory.code_fits(208 * 1024, BOW)
    assert not tile_memory.code_fits(208 * 1024 + 1, BOW)
    assert not tile_memory.code_fits(128 * 1024, GC2)  # the system takes a part


@pytest.mark.parametrize(("bits", "rate"), [(32, 4), (64, 8), (128, 16)])
def test_load_rates(bits, rate):
    assert tile_memory.load_bytes_per_cycle(BOW, bits) == rate


def test_only_interleaved_memory_is_loaded_by_128_bits():
    np.testing.assert_array_equal(tile_memory.load_cycles(np.array([0, 16, 17]), BOW), [0, 2, 3])
    assert tile_memory.load_cycles(17, BOW, interleaved=True) == 2


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
    assert workers.dealt_cycles(6, BOW, slots_per_item=10, start_slots=2) == 6 * 12
    assert workers.dealt_cycles(7, BOW, slots_per_item=10, start_slots=2) == 6 * 22
    np.testing.assert_array_equal(workers.slowest_share(np.array([0, 1, 6, 7]), BOW), [0, 1, 1, 2])


def test_a_reduction_on_one_tile_takes_a_cycle_an_operand():
    (long,) = reduction_supersteps(1, 20_000, 1, "f32", GC2)
    (short,) = reduction_supersteps(1, 10_000, 1, "f32", GC2)
    assert long.compute_cycles - short.compute_cycles == pytest.approx(10_000, rel=0.01)
    assert long.sync_cycles == 2 * GC2.sync_cycles  # workers' shares, then their sum


def test_a_reduction_over_tiles_gathers_once():
    local, across = reduction_supersteps(1, 100, 1216, "f32", GC2)
    assert local.exchange_cycles == 0
    assert local.busy_tile_cycles == 1216 * local.compute_cycles
    assert across.exchange_cycles > 1216
    assert across.exchange_bytes == 4 * 1216
    assert across.busy_tile_cycles == across.compute_cycles


def test_results_dealt_to_more_tiles_take_less():
    (one,) = reduction_supersteps(512, 1, 64, "f32", BOW)
    (many,) = reduction_supersteps(512, 1, 64, "f32", BOW, reducing_tiles=64)
    assert many.total_cycles < one.total_cycles / 10
    assert many.exchange_bytes == one.exchange_bytes


def test_nothing_to_reduce():
    assert reduction_supersteps(10, 1, 1, "f32", BOW) == ()
