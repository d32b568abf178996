"""Summaries of values, and what counts as a fault of an operation."""

import numpy as np
import pytest

from ipu_tf.runtime.execution.value_findings import CheckedOp, finding, place_of, summary


def test_a_summary_counts_values_by_their_exponent():
    values = np.array([0.0, -0.0, 1.0, -1.5, 2.0, 6e-8, np.inf, np.nan], np.float16)
    found = summary("x", values)
    assert (found.low, found.high) == (-1.5, 2.0)
    assert (found.zeros, found.infinities, found.nans) == (2, 1, 1)
    assert found.exponents == ((-24, 1), (0, 2), (1, 1))


def test_a_summary_of_nothing_finite():
    found = summary("x", np.array([np.nan], np.float32))
    assert (found.low, found.high, found.zeros, found.exponents) == (None, None, 0, ())


@pytest.mark.parametrize(
    ("op_type", "operand", "fault"),
    [
        ("Cast", 1e5, "overflow"),
        ("MatMul", 6e4, "overflow"),
        ("MatMul", np.inf, "invalid operation"),
        ("Acos", 2.0, "invalid operation"),
    ],
)
def test_a_nan_of_a_linear_operation_on_finite_values_is_an_overflow(op_type, operand, fault):
    checked = CheckedOp(name="op", op_type=op_type, operands=("x",))
    values = np.array([1.0, operand], np.float32), np.array([1.0, np.nan], np.float16)
    found = finding(checked, values)
    assert (found.fault, found.position) == (fault, (1,))


@pytest.mark.parametrize(
    ("flat", "position", "around"),
    [
        (0, (0, 0), (0, 1, 2, 3, 4)),
        (7, (1, 2), (3, 4, 5, 6, 7, 8, 9, 10, 11)),
        (14, (2, 4), (10, 11, 12, 13, 14)),
    ],
)
def test_the_place_of_a_value(flat, position, around):
    assert place_of(flat, np.arange(15.0).reshape(3, 5)) == (position, around)


def test_the_place_of_a_scalar():
    assert place_of(0, np.float32(2.0).reshape(())) == ((), (2.0,))
