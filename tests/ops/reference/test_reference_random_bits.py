import numpy as np
import pytest

from ipu_tf.ops import reference
from ipu_tf.ops.reference import Xoroshiro128Plus

GOLDEN_GAMMA = 0x9E3779B97F4A7C15


def test_splitmix64_gives_its_published_first_outputs():
    assert reference.splitmix64(0) == 0xE220A8397B1DCDAF
    assert reference.splitmix64(GOLDEN_GAMMA) == 0x6E789E6AA1B965F4
    assert reference.splitmix64(2**64 - GOLDEN_GAMMA) == 0


def test_xoroshiro_by_hand():
    generator = Xoroshiro128Plus((1, 0))
    assert generator.next_word() == 1
    # t = 1: s0 = 2**24 ^ 1 ^ 2**16, s1 = 2**37.
    assert generator.next_word() == 2**37 + 2**24 + 2**16 + 1
    # t = s0 ^ s1 has the bits 37, 24, 16 and 0, so s1 has 10, 61, 53 and 37, and s0 is
    # bits 48, 40, 24 (rotated s0) ^ bits 37, 24, 16, 0 (t) ^ bits 53, 40, 32, 16 (t << 16).
    s0 = 2**48 + 2**37 + 1 + 2**53 + 2**32
    s1 = 2**10 + 2**61 + 2**53 + 2**37
    assert generator.next_word() == s0 + s1


def test_xoroshiro_wraps_and_rotates():
    generator = Xoroshiro128Plus((2**63, 2**63))
    assert generator.next_word() == 0
    # t = 0: only the rotated s0 is left.
    assert generator.next_word() == 2**23


def test_two_zero_words_stand_for_one_and_zero():
    assert Xoroshiro128Plus((0, 0)).next_word() == Xoroshiro128Plus((1, 0)).next_word() == 1


def test_a_word_serves_four_roundings_lowest_bits_first():
    word = Xoroshiro128Plus((0x0001000200030004, 0)).next_word()
    assert word == 0x0001000200030004
    generator = Xoroshiro128Plus((0x0001000200030004, 0))
    np.testing.assert_array_equal(generator.next_16(4), [4, 3, 2, 1])


def test_what_is_left_of_a_word_serves_the_next_request():
    whole = Xoroshiro128Plus((3, 7)).next_16(11)
    pieces = Xoroshiro128Plus((3, 7))
    np.testing.assert_array_equal(
        np.concatenate([pieces.next_16(count) for count in (1, 6, 0, 4)]), whole
    )


def test_the_start_of_a_tile_by_its_definition():
    h = 5
    for value in (2, 3, 4):
        h = reference.splitmix64(h ^ value)
    assert reference.mix(5, 2, 3, 4) == h
    state = (reference.splitmix64(h), reference.splitmix64((h + GOLDEN_GAMMA) % 2**64))
    generator = Xoroshiro128Plus.for_tile(seed=5, stream=2, call=3, tile=4)
    assert generator.next_word() == Xoroshiro128Plus(state).next_word()


@pytest.mark.parametrize("changed", ["seed", "stream", "call", "tile"])
def test_every_number_matters_to_the_start(changed):
    numbers = {"seed": 1, "stream": 2, "call": 3, "tile": 4}
    other = numbers | {changed: 9}
    assert reference.mix(**numbers) != reference.mix(**other)


def test_negative_seeds_wrap():
    assert reference.mix(-1, 0, 0, 0) == reference.mix(2**64 - 1, 0, 0, 0)


def test_bits_look_uniform():
    numbers = Xoroshiro128Plus.for_tile(seed=0, stream=0, call=0, tile=0).next_16(40000)
    assert numbers.min() >= 0
    assert numbers.max() < 65536
    # Four standard deviations of the mean of 40000 uniform numbers.
    assert abs(numbers.mean() - 32767.5) < 4 * 65536 / np.sqrt(12 * 40000)
