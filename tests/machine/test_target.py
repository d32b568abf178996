import dataclasses
import math

import pytest

from ipu_tf.machine import CHIPS, Target, target


@pytest.mark.parametrize(
    ("chip", "f16_tflops", "sram_mib"),
    [("gc2", 124.5, 304), ("gc200", 250, 897), ("bow", 350, 897), ("c600", 280, 897)],
)
def test_constants_give_the_published_totals(chip, f16_tflops, sram_mib):
    one = target(chip)
    assert one.tiles * one.macs_per_cycle_f16 * 2 * one.clock_hz == pytest.approx(
        f16_tflops * 1e12, rel=0.005
    )
    assert one.tiles * one.tile_bytes / 2**20 == pytest.approx(sram_mib, rel=0.005)


def test_unknown_chip_names_the_known_ones():
    with pytest.raises(ValueError, match=r"'gc2', 'gc200', 'bow', 'c600'\. Received: 'gc3'"):
        target("gc3")


def test_a_smaller_machine_keeps_everything_else():
    assert target("bow", 16) == dataclasses.replace(CHIPS["bow"], tiles=16)
    assert target("bow", 0) is CHIPS["bow"]


@pytest.mark.parametrize("tiles", [-1, 1473])
def test_a_chip_has_only_its_tiles(tiles):
    with pytest.raises(ValueError, match=f"A bow IPU has 1472 tiles.*Received: {tiles}"):
        target("bow", tiles)


def test_constants_are_positive():
    with pytest.raises(ValueError, match=r"Target\.workers must be positive\. Received: 0"):
        dataclasses.replace(CHIPS["bow"], workers=0)


def test_rate_depends_on_the_type():
    assert target("bow").macs_per_cycle("float16") == 64
    assert target("bow").macs_per_cycle("float32") == 16


@pytest.mark.parametrize("chip", CHIPS)
def test_an_amp_unit_takes_four_float16_or_one_float32_a_cycle(chip):
    one = target(chip)
    assert one.macs_per_cycle("float16") == 4 * one.amp_columns
    assert one.macs_per_cycle("float32") == one.amp_columns


def test_a_machine_of_ones_own():
    mine = dataclasses.replace(CHIPS["bow"], chip="mine", tiles=3000, clock_hz=2e9)
    assert mine.seconds(2e9) == 1
    scratch = Target(
        chip="tiny",
        tiles=4,
        clock_hz=1e9,
        tile_bytes=1024,
        workers=2,
        macs_per_cycle_f16=8,
        macs_per_cycle_f32=2,
        amp_columns=2,
        load_bytes_per_cycle=16,
        exchange_bytes_per_cycle=4,
        sync_cycles=10,
        exchange_fixed_cycles=20,
    )
    assert scratch.macs_per_cycle_f8 == 0
    assert scratch.exchange == CHIPS["gc2"].exchange


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("chip", "", r"Target\.chip must be a name\. Received: ''"),
        ("tiles", 2.5, r"Target\.tiles must be positive\. Received: 2\.5"),
        ("chip", 200, r"Target\.chip must be a name\. Received: 200"),
        ("tiles", True, r"Target\.tiles must be positive\. Received: True"),
        ("clock_hz", math.nan, r"Target\.clock_hz must be positive\. Received: nan"),
        ("clock_hz", math.inf, r"Target\.clock_hz must be positive\. Received: inf"),
        ("store_bytes_per_cycle", 2, r"store_bytes_per_cycle must be at least 4\. Received: 2"),
        ("interleaved_share", "2/3", r"interleaved_share must be between 0 and 1.*'2/3'"),
        ("exchange_bytes_per_cycle", 16, r"must be at least the 16 of exchange_bytes_per_cycle.*8"),
        ("exchange", None, r"Target\.exchange must be an ExchangeTiming\. Received: None"),
        ("macs_per_cycle_f16", 96, r"macs_per_cycle_f16 must divide 256.*float16: 16 x 16 col.*96"),
        ("amp_columns", 15, r"macs_per_cycle_f32 must divide 120.*Received: 16"),
        ("macs_per_cycle_f8", -1, r"macs_per_cycle_f8 must be zero or positive\. Received: -1"),
        ("interleaved_share", 1.5, r"interleaved_share must be between 0 and 1\. Received: 1\.5"),
        ("sync_cycles", -1, r"Target\.sync_cycles must be zero or positive\. Received: -1"),
        ("system_bytes", 1 << 20, r"system_bytes must be less than the 638976 bytes.*1048576"),
    ],
)
def test_a_target_is_checked(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(CHIPS["bow"], **{field: value})


def test_a_target_may_be_smaller_than_itself():
    mine = dataclasses.replace(CHIPS["bow"], chip="mine", tiles=3000)
    assert target(mine) is mine
    assert target(mine, 2999).tiles == 2999
    with pytest.raises(ValueError, match=r"A mine IPU has 3000 tiles.*Received: 3001"):
        target(mine, 3001)


def test_only_the_c600_multiplies_float8():
    c600 = target("c600")
    assert c600.tiles * c600.macs_per_cycle("float8") * 2 * c600.clock_hz == pytest.approx(
        560e12, rel=0.005
    )
    with pytest.raises(ValueError, match=r"The bow target has no float8.*Received: 'float8_e4m3'"):
        target("bow").macs_per_cycle("float8_e4m3")
