"""Histograms against NumPy."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from ipu_tf.ops import statistics_ops

finite = st.floats(min_value=-100, max_value=100, width=16)


def numpy_histogram(values, levels):
    edges = np.concatenate([[-np.inf], levels, [np.inf]])
    return [np.sum((lo <= values) & (values < hi)) for lo, hi in itertools.pairwise(edges)]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@given(values=st.lists(finite, min_size=1, max_size=20), levels=st.sets(finite, min_size=1))
@pytest.mark.slow
def test_histogram_counts_as_numpy_does(dtype, values, levels):
    values, levels = np.array(values, dtype), np.array(sorted(levels), dtype)
    counts = statistics_ops.histogram(values, levels)
    np.testing.assert_array_equal(counts, numpy_histogram(values, levels))


def test_a_value_on_a_level_is_in_the_bin_above():
    counts = statistics_ops.histogram([1.0, 2.0, 3.0], [1.0, 2.0])
    np.testing.assert_array_equal(counts, [0, 1, 2])


def test_magnitudes():
    counts = statistics_ops.histogram([-5.0, 5.0, -1.0], [2.0], absolute_of_input=True)
    np.testing.assert_array_equal(counts, [1, 2])


def test_values_that_are_not_numbers_are_in_the_last_bin():
    counts = statistics_ops.histogram([np.nan, np.inf, -np.inf], [2.0], absolute_of_input=True)
    np.testing.assert_array_equal(counts, [0, 3])


def test_the_histogram_of_mixed_types_compares_values_not_their_roundings():
    """2049 is no float16, and 2048 is below it."""
    counts = statistics_ops.histogram(np.float16([2048]), np.float32([2049]))
    np.testing.assert_array_equal(counts, [1, 0])


def test_update_adds():
    counts = statistics_ops.histogram_update([1.0, 2.0], [0.0, 5.0, 6.0], [3.0])
    np.testing.assert_array_equal(counts, [2, 4])


def test_normalize():
    np.testing.assert_allclose(statistics_ops.histogram_normalize([1.0, 3.0]), [0.25, 0.75])


def test_fixed_width_bins():
    levels = statistics_ops.fixed_width_bins([4.0, 0.0, 2.0], 3)
    np.testing.assert_allclose(levels, [0, 2, 4])


def test_histogram_under_xla():
    jitted = tf.function(statistics_ops.histogram, jit_compile=True)
    np.testing.assert_array_equal(jitted(tf.constant([1.0, 9.0]), tf.constant([2.0])), [1, 1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1], [1.0]), "only float16 and float32 types.*Received: inputs of dtype int32"),
        (([1.0], [1]), "only float16 and float32 types.*Received: levels of dtype int32"),
        (([[1.0]], [1.0]), r"expects rank-1 tensor inputs.*Received: inputs of shape \(1, 1\)"),
        (([1.0], 1.0), r"expects rank-1 tensor inputs.*Received: levels of shape \(\)"),
    ],
)
def test_histogram_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        statistics_ops.histogram(*arguments)


@pytest.mark.parametrize(
    ("hist", "levels", "message"),
    [
        ([1, 2], [1.0], "hist must be of float32 type.*Received: hist of dtype int32"),
        ([[1.0]], [1.0], "histogram_update expects rank-1 tensor inputs.*Received: hist of shape"),
        ([1.0, 2.0], 1.0, "rank-1 tensor inputs.*Received: levels of shape"),
        ([1.0], [1.0], r"For n levels, hist must have n\+1 elements.*hist of shape \(1,\)"),
    ],
)
def test_histogram_update_errors(hist, levels, message):
    with pytest.raises(ValueError, match=message):
        statistics_ops.histogram_update(hist, [1.0], levels)
