import dataclasses

import numpy as np
import pytest

from ipu_tf.machine import target
from ipu_tf.machine.contractions import (
    AMP_GRAINS,
    METHODS,
    ContractionWork,
    add_in_place_cycles,
    amp_1x1_cycles,
    amp_nx1_cycles,
    horizontal_mac_cycles,
    outer_product_cycles,
    pass_columns,
    reduce_cycles,
    slic_cycles,
    vertical_mac_cycles,
)
from ipu_tf.machine.contractions.amp import weight_load_cycles

BOW = target("bow")
C600 = target("c600")
GC2 = target("gc2")
FASTER = dataclasses.replace(BOW, macs_per_cycle_f16=128, store_bytes_per_cycle=16)


def work(**changes):
    values = {
        "positions": 600,
        "row_positions": 600,
        "in_channels": 16,
        "out_channels": 16,
        "dtype": "float16",
        "partials": "float32",
    }
    return ContractionWork(**values | changes)


@pytest.mark.parametrize(
    ("positions", "cycles"),
    # Measured on a Bow: tessellate-ipu, notebook "IPU Peak Flops", cycles per tile.
    [(256, 1352), (512, 2381.3), (768, 3404), (1024, 4424), (1536, 6476), (2048, 8525.3)],
)
def test_amp_1x1_as_measured(positions, cycles):
    block = work(positions=positions, row_positions=positions, partials="float16")
    assert amp_1x1_cycles(block, BOW) == pytest.approx(cycles, rel=0.002)


@pytest.mark.parametrize(
    ("dtype", "machine", "slots"),
    [
        ("float16", BOW, 4),
        ("float32", BOW, 8),
        ("float16", GC2, 4),
        ("float8", C600, 4),
        ("float16", FASTER, 2),
    ],
)
def test_amp_streams_a_position_past_all_units(dtype, machine, slots):
    one_pass = work(
        dtype=dtype,
        partials="float32" if dtype == "float32" else "float16",
        in_channels=AMP_GRAINS[dtype],
        out_channels=machine.amp_columns,
    )
    more = dataclasses.replace(one_pass, positions=606)
    # Float32 zeroes its partials in memory: eight bytes a slot, 16 columns of four bytes.
    zeroing = machine.amp_columns * 4 // 8 if dtype == "float32" else 0
    grown = amp_1x1_cycles(more, machine) - amp_1x1_cycles(one_pass, machine)
    assert grown == 6 * (slots + zeroing)


@pytest.mark.parametrize("vertex", [amp_1x1_cycles, amp_nx1_cycles])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("slower", [1, 2, 16])
@pytest.mark.parametrize("positions", [1, 7, 13, 18, 600])
def test_no_amp_unit_exceeds_its_rate(vertex, dtype, slower, positions):
    rate = {"macs_per_cycle_f16": 64 // slower, "macs_per_cycle_f32": 16 // slower}
    machine = dataclasses.replace(BOW, **rate)
    partials = "float32" if dtype == "float32" else "float16"
    block = work(positions=positions, row_positions=positions, dtype=dtype, partials=partials)
    products = positions * 16 * 16
    assert vertex(block, machine) > products / machine.macs_per_cycle(dtype)


def test_columns_that_cannot_be_stored_cost_nothing():
    wider = dataclasses.replace(BOW, amp_columns=32, macs_per_cycle_f32=32, macs_per_cycle_f16=128)
    block = work(dtype="float32")
    assert pass_columns("float32", "float32", wider) == BOW.amp_columns
    assert amp_1x1_cycles(block, wider) == amp_1x1_cycles(block, BOW)


@pytest.mark.parametrize(("machine", "slots"), [(BOW, 4), (FASTER, 2)])
def test_filters_of_many_positions_stream_as_fast(machine, slots):
    block = work(partials="float16", taps=3, tap_rows=1)
    more = dataclasses.replace(block, positions=606, row_positions=606)
    # A position more for every worker: in each of three taps, and once when partials are zeroed,
    # where 16 float16 take as many slots to store.
    assert amp_nx1_cycles(more, machine) - amp_nx1_cycles(block, machine) == (3 + 1) * 6 * slots


@pytest.mark.parametrize(
    ("dtype", "partials", "machine", "columns"),
    [
        ("float16", "float16", BOW, 16),
        ("float16", "float32", BOW, 8),
        ("float32", "float32", BOW, 16),
        ("float8", "float32", C600, 16),
        ("float16", "float32", GC2, 8),
        ("float16", "float16", GC2, 8),
    ],
)
def test_a_pass_is_as_wide_as_its_partials_can_be_stored(dtype, partials, machine, columns):
    assert pass_columns(dtype, partials, machine) == columns


def test_wide_partials_halve_the_rate_of_float16():
    half, wide = (
        amp_1x1_cycles(work(positions=60_000, partials=p), BOW) for p in ("float16", "float32")
    )
    assert wide / half == pytest.approx(2, rel=0.01)


def test_weights_load_64_bits_at_a_time():
    # 16 float16 channels for 16 columns.
    assert weight_load_cycles("float16", 16, BOW) == 16 * 16 * 2 // 8


def test_amp_fills_up_passes():
    narrow = work(in_channels=3, out_channels=9)
    assert amp_1x1_cycles(narrow, BOW) == amp_1x1_cycles(work(), BOW)
    assert amp_1x1_cycles(work(out_channels=17), BOW) > amp_1x1_cycles(work(), BOW)
    assert amp_1x1_cycles(work(in_channels=17), BOW) > amp_1x1_cycles(work(), BOW)


def test_amp_counts_the_slowest_worker():
    one, most, all_ = (
        amp_1x1_cycles(work(positions=positions, partials="float16"), BOW)
        for positions in (601, 605, 606)
    )
    # The supervisor's 14 cycles show where no worker is ahead of another.
    assert one == most == all_ - 14


def test_amp_expanded_takes_taps_for_channels():
    expanded = work(in_channels=3, taps=9, tap_rows=3)
    assert amp_1x1_cycles(expanded, BOW) == amp_1x1_cycles(work(in_channels=27), BOW)


def test_amp_nx1_by_hand():
    # A worker: 17, one item of 3 + 34 + 4 * 97, less 9. A tap: 12 + 32 + 15 + 3 and the workers.
    tap = 12 + 32 + 15 + 3 + 6 * (17 + 3 + 34 + 4 * 97 - 9)
    # Two passes of 8 columns, for float32 partials: 600 x 8 are 2400 vectors of 8 bytes, 400 a
    # worker.
    zeroing = 2 * (17 + 6 * (15 + 400))
    group = 16 + zeroing + 14 + 2 * (14 + 14 * 3 + 9 * tap)
    assert amp_nx1_cycles(work(taps=9, tap_rows=3), BOW) == 109 + 6 * 19 + group


def test_amp_loads_several_rows_of_a_filter_at_once():
    one, two, four = (
        amp_nx1_cycles(work(taps=9, tap_rows=3), BOW, filter_rows=rows) for rows in (1, 2, 4)
    )
    # Two passes of 8 columns for each of 9 taps.
    assert (two - one, four - one) == (2 * 9 * (46 - 15), 2 * 9 * (60 - 15))


def test_slic_reaches_half_of_its_four_columns_in_two_passes():
    narrow = {"groups": 4, "in_channels": 1, "out_channels": 1, "taps": 4}
    longer = work(**narrow, positions=6 * 200, row_positions=200)
    grown = slic_cycles(longer, BOW) - slic_cycles(
        work(**narrow, positions=6 * 100, row_positions=100), BOW
    )
    assert grown == 6 * 2 * 100


def test_slic_packs_groups():
    one = work(groups=1, in_channels=1, out_channels=1)
    assert slic_cycles(dataclasses.replace(one, groups=4), BOW) == slic_cycles(one, BOW)
    assert slic_cycles(dataclasses.replace(one, groups=5), BOW) > slic_cycles(one, BOW)


def test_slic_at_stride_2_takes_twice_as_long_a_row():
    steps = [
        slic_cycles(
            work(positions=n, row_positions=n // 6, in_channels=4, out_channels=4, stride=2),
            BOW,
        )
        for n in (600, 606)
    ]
    assert steps[1] - steps[0] == 6 * 2 * 2


def test_slic_merges_float16_partials():
    merged = slic_cycles(work(partials="float16", in_channels=4, out_channels=4), BOW)
    plain = slic_cycles(work(in_channels=4, out_channels=4), BOW)
    assert merged - plain == 6 * (2 + 2 * 100)


def test_horizontal_mac_by_hand():
    # Ten positions a worker, each 7 + 16 dot products of 7 + 4 vectors.
    worker = 16 - 15 + 13 + 10 * (7 + 16 * (7 + 4))
    block = work(positions=60, row_positions=60)
    assert horizontal_mac_cycles(block, BOW) == 65 - 10 + 23 + 15 + 10 + 6 * worker


def test_horizontal_mac_reads_narrow_rows_by_elements():
    assert horizontal_mac_cycles(work(in_channels=3), BOW) > horizontal_mac_cycles(
        work(in_channels=4), BOW
    )


def test_vertical_mac_computes_eight_groups_at_once():
    depthwise = {"in_channels": 1, "out_channels": 1, "taps": 9, "tap_rows": 3}
    one = vertical_mac_cycles(work(groups=1, row_positions=25, **depthwise), BOW)
    assert vertical_mac_cycles(work(groups=8, row_positions=25, **depthwise), BOW) == one
    assert vertical_mac_cycles(work(groups=9, row_positions=25, **depthwise), BOW) > one


def test_vertical_mac_adds_what_workers_share():
    few = work(groups=8, positions=4, row_positions=4, in_channels=1, out_channels=1, taps=12)
    many = dataclasses.replace(few, positions=24)
    assert vertical_mac_cycles(few, BOW) < vertical_mac_cycles(many, BOW)


def test_outer_product_by_hand():
    block = work(positions=12, in_channels=1)
    assert outer_product_cycles(block, BOW) == 33 + 6 * (20 + 2 * (9 + 2 * 4))


def test_reduction_by_hand():
    # 100 float32 are 25 rows of 16 bytes: 5 on the slowest worker, each 9 + two slots a partial
    # that was received.
    cycles = reduce_cycles(elements=100, depth=8, partial_bytes=4, target=BOW)
    assert cycles == 33 + 6 * (20 + 5 * (2 * 7 + 9))


def test_one_partial_needs_no_reduction():
    cycles = reduce_cycles(
        elements=np.array([100, 100, 100]), depth=np.array([1, 2, 4]), partial_bytes=4, target=BOW
    )
    assert cycles[0] == 0
    assert 0 < cycles[1] < cycles[2]


def test_addition_in_place_by_hand():
    cycles = add_in_place_cycles(elements=120, element_bytes=4, target=BOW)
    assert cycles == 11 + 6 * (58 + 3 * 10)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["groups", "positions", "in_channels", "out_channels", "taps"])
def test_more_work_never_costs_less(method, name):
    sizes = np.arange(1, 60)
    block = work(**{"positions": 48, "row_positions": 12, name: sizes})
    cycles = METHODS[method].cycles(block, BOW)
    # A horizontal MAC reads rows narrower than a vector element by element.
    if method.startswith("horizontal_mac") and name == "in_channels":
        cycles = cycles[3:]
    # An AMP worker's loop starts at its third position and has less to set up.
    if name == "positions":
        cycles = cycles[18:]
    assert (np.diff(cycles) >= 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_arrays_and_integers_agree(method):
    sizes = np.array([1, 5, 64, 333])
    together = METHODS[method].cycles(work(positions=sizes, row_positions=sizes), BOW)
    alone = [
        METHODS[method].cycles(work(positions=size, row_positions=size), BOW)
        for size in sizes.tolist()
    ]
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("method", METHODS)
def test_no_method_is_faster_than_its_peak(method):
    block = work(groups=8, positions=480, row_positions=24, taps=9, tap_rows=3)
    macs = 8 * 480 * 9 * 16 * 16
    peak = METHODS[method].peak_macs_per_cycle(block.dtype, block.partials, BOW)
    assert METHODS[method].cycles(block, BOW) * peak >= macs


def test_only_the_c600_multiplies_float8():
    with pytest.raises(ValueError, match="The bow target has no float8 arithmetic"):
        amp_1x1_cycles(work(dtype="float8"), BOW)
