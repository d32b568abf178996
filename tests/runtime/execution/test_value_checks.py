"""Summaries of values, and what counts as a fault of an operation."""

import numpy as np

from ipu_tf.runtime.execution.value_checks import summary


def test_a_summary_counts_values_by_their_exponent():
    values = np.array([0.0, -0.0, 1.0, -1.5, 2.0, 6e-8, np.inf, np.nan], np.float16)
    found = summary("x", values)
    assert (found.low, found.high) == (-1.5, 2.0)
    assert (found.zeros, found.infinities, found.nans) == (2, 1, 1)
    assert found.exponents == ((-24, 1), (0, 2), (1, 1))


def test_a_summary_of_nothing_finite():
    found = summary("x", np.array([np.nan], np.float32))
    assert (found.low, found.high, found.zeros, found.exponents) == (None, None, 0, ())
