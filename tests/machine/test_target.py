import dataclasses

import pytest

from ipu_tf.machine import CHIPS, target


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
