import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipu_tf.ops.reference import Rounding, round16

INF, NAN = np.inf, np.nan


def rounded(value, bits=None, nanoo=False):
    numbers = None if bits is None else np.array([bits])
    (result,) = round16(np.array([value], np.float32), nanoo=nanoo, bits=numbers)
    return result


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, 1.0),
        (2049, 2048),  # tie between 2048 and 2050: the even mantissa
        (2051, 2052),
        (1 + 2**-11, 1.0),
        (1 + 3 * 2**-11, 1 + 2**-9),
        (2**-24, 2**-24),  # the smallest subnormal
        (2**-25, 0.0),
        (2**-25 * 1.0001, 2**-24),
        (1.5 * 2**-24, 2**-23),
        (2**-14 - 2**-25, 2**-14),
        (65504, 65504),
        (65519.996, 65504),
        (65520, 65504),  # would be 65536
        (1e30, 65504),
        (INF, 65504),
    ],
)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_nearest_by_hand(value, expected, sign):
    result = rounded(sign * value)
    assert result == sign * expected
    assert np.signbit(result) == (sign < 0)


@pytest.mark.parametrize("value", [65520, -65520, 1e30, INF, -INF])
def test_overflow_is_nan_where_asked(value):
    assert np.isnan(rounded(value, nanoo=True))
    assert np.isnan(rounded(value, bits=65535, nanoo=True))


def test_the_largest_value_is_no_overflow():
    assert rounded(65519.996, nanoo=True) == 65504


@pytest.mark.parametrize("nanoo", [False, True])
@pytest.mark.parametrize("bits", [None, 1])
def test_nan_stays_nan(nanoo, bits):
    assert np.isnan(rounded(NAN, bits=bits, nanoo=nanoo))


@given(st.floats(-65519.0, 65519.0, width=32))
def test_nearest_is_what_numpy_does_in_range(value):
    expected = np.float32(np.float16(np.float32(value)))
    result = rounded(value)
    assert result == expected
    assert np.signbit(result) == np.signbit(expected)


@pytest.mark.parametrize(
    ("value", "bits", "expected"),
    [
        (1.0, 65535, 1.0),  # nothing to round
        (1 + 2**-12, 49151, 1.0),  # a quarter of the spacing: 16384 + bits below 65536
        (1 + 2**-12, 49152, 1 + 2**-10),
        (-1 - 2**-12, 49152, -1 - 2**-10),  # away from zero
        (0.75 * 2**-24, 16383, 0.0),
        (0.75 * 2**-24, 16384, 2**-24),
        (2**-41, 65535, 0.0),  # 2**-17 of the spacing: below what 16 bits can see
        (65520, 32767, 65504),
        (65520, 32768, 65504),  # rounds up to 65536: saturates
        (-0.0, 65535, -0.0),
    ],
)
def test_stochastic_by_hand(value, bits, expected):
    result = rounded(value, bits=bits)
    assert result == expected
    assert np.signbit(result) == np.signbit(expected)


def test_stochastic_overflow_depends_on_the_bits():
    assert rounded(65520, bits=32767, nanoo=True) == 65504
    assert np.isnan(rounded(65520, bits=32768, nanoo=True))


@given(st.floats(-60000.0, 60000.0, width=32))
def test_stochastic_rounding_is_unbiased(value):
    bits = np.arange(65536)
    results = round16(np.full(65536, value, np.float32), bits=bits).astype(np.float64)
    spacing = np.spacing(np.abs(np.float16(results[0]))).astype(np.float64)
    assert abs(results.mean() - np.float32(value)) <= spacing / 65536
    assert len(set(results)) <= 2


def test_rounding_modes_have_names():
    with pytest.raises(ValueError, match=r"must be 'nearest' or 'stochastic'\. Received: 'up'"):
        Rounding(mode="up")


def test_a_tile_uses_its_bits_up():
    halfway = np.full(64, 1 + 2**-11, np.float32)
    rounder = Rounding(mode="stochastic", seed=1).on_tile(0)
    first, second = rounder(halfway), rounder(halfway)
    again = Rounding(mode="stochastic", seed=1).on_tile(0)
    np.testing.assert_array_equal(again(halfway), first)
    assert not np.array_equal(first, second)
    assert not np.array_equal(Rounding(mode="stochastic", seed=1).on_tile(1)(halfway), first)
