import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipu_tf.machine import exchange, target
from ipu_tf.machine.exchange_timing import ExchangeTiming

GC2 = target("gc2")
BOW = target("bow")

PATTERNS = {
    "point_to_point": lambda size, tiles: exchange.point_to_point_cycles(
        size, BOW, transfers=tiles
    ),
    "gather": lambda size, tiles: exchange.gather_cycles(size, tiles, BOW),
    "scatter": lambda size, tiles: exchange.scatter_cycles(size, tiles, BOW),
    "broadcast": lambda size, tiles: exchange.broadcast_cycles(size, tiles, BOW),
    "all_to_all": lambda size, tiles: exchange.all_to_all_cycles(size, tiles, BOW),
    "phase": lambda size, tiles: exchange.phase_cycles(size * (np.asarray(tiles) > 0), BOW),
}


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_a_pattern_takes_numbers_and_arrays_alike(pattern):
    sizes = np.array([0, 4, 8, 4000])
    of_array = pattern(sizes, np.full(4, 32))
    assert of_array.dtype == np.int64
    assert [pattern(int(size), 32) for size in sizes] == of_array.tolist()
    assert isinstance(pattern(4, 32), int)


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_nothing_moves_for_nothing(pattern):
    assert pattern(0, 32) == 0
    assert pattern(4, 0) == 0


@pytest.mark.fast_cells(2)
@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
@given(size=st.integers(2, 5000), tiles=st.integers(4, 700))
def test_a_pattern_never_gets_cheaper_with_size(pattern, size, tiles):
    # Single words of a scatter start later than blocks do; fewer than four tiles make no pairs.
    assert pattern(4 * size, tiles) <= pattern(4 * size + 4, tiles)
    assert pattern(4 * size, tiles) <= pattern(4 * size, 2 * tiles)


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_bytes_move_in_words(pattern):
    assert pattern(5, 8) == pattern(8, 8)


def test_a_phase_moves_a_word_a_cycle_after_its_start():
    assert exchange.phase_cycles(4000, BOW) == BOW.exchange_fixed_cycles + 1000
    assert exchange.phase_cycles(4000, BOW, sent_bytes=8000) == BOW.exchange_fixed_cycles + 2000


def test_pairs_receive_what_they_share_at_twice_the_rate():
    assert exchange.paired_phase_cycles(8000, 0, BOW) == BOW.exchange_fixed_cycles + 1000
    assert exchange.paired_phase_cycles(0, 8000, BOW) == exchange.phase_cycles(8000, BOW)


def test_a_gather_hides_the_way_of_far_senders():
    slope = exchange.gather_cycles(4, 1000, GC2) - exchange.gather_cycles(4, 500, GC2)
    assert slope == 500
    assert exchange.gather_cycles(4, 2, GC2) == GC2.exchange.nearest_cycles


def test_a_broadcast_feeds_pairs_from_four_receivers_on():
    two, four = (exchange.broadcast_cycles(80_000, tiles, GC2) for tiles in (2, 4))
    assert two - four == 20_000 - 10_000


def test_a_broadcast_is_latest_on_the_other_side():
    one_column, one_side, chip = (
        exchange.broadcast_cycles(4, tiles, GC2) for tiles in (76, 608, 1216)
    )
    assert one_side - one_column == 62  # seven columns further
    assert chip - one_side == GC2.exchange.far_side_cycles


def test_single_words_scatter_later():
    words, blocks = (exchange.scatter_cycles(size, 10, GC2) for size in (4, 8))
    assert words + 10 - GC2.exchange.single_word_cycles == blocks


def test_the_farthest_of_many_is_likely_far():
    mean = exchange.expected_farthest_cycles(1, GC2)
    assert mean == pytest.approx(59 + 2 * 9 + 62 / 7 * 21 / 8)  # 21 / 8: mean distance of 8 columns
    assert exchange.expected_farthest_cycles(10**6, GC2) == pytest.approx(157)


def test_exchange_code_of_a_tile():
    assert exchange.exchange_code_bytes(received=0, sent=0, sent_bytes=64) == 0
    assert exchange.exchange_code_bytes(received=3, sent=0) == 8 + 3 * 8
    assert exchange.exchange_code_bytes(received=0, sent=2, sent_bytes=512) == 8 + 2 * 8
    # Two messages of 64 words and two words more.
    assert exchange.exchange_code_bytes(received=0, sent=2, sent_bytes=520) == 8 + 2 * 8 + 4


def test_chips_without_measurements_keep_the_latencies():
    assert BOW.exchange == dataclasses.replace(GC2.exchange, islands_per_column=23)
    assert 2 * BOW.exchange.columns_per_side * BOW.exchange.tiles_per_column == BOW.tiles
    assert BOW.exchange_fixed_cycles == BOW.exchange.farthest_cycles + 13


def test_timing_is_not_negative():
    with pytest.raises(ValueError, match=r"ExchangeTiming\.island_cycles must be.*Received: -1"):
        ExchangeTiming(island_cycles=-1)
    with pytest.raises(ValueError, match=r"at least one column.*columns_per_side=0"):
        ExchangeTiming(columns_per_side=0)
