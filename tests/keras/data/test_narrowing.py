"""64-bit values become 32-bit values, or an error."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.keras.data import narrowing

INT32 = np.iinfo(np.int32)


def through_dataset(values):
    spec = tf.TensorSpec(values.shape, values.dtype)

    @tf.function(input_signature=[spec])
    def narrow(tensor):
        return narrowing.narrow_tensor("y", tensor, model="m")

    return narrow(values).numpy()


def as_array(values):
    return narrowing.narrow_array("y", values, model="m")


def as_tensor(values):
    narrow = narrowing.narrow_array("y", tf.constant(values), model="m")
    assert tf.is_tensor(narrow)
    return narrow.numpy()


WAYS = pytest.mark.parametrize("narrow", [as_array, as_tensor, through_dataset])


@pytest.mark.fast_cells(1)
@WAYS
@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (np.array([INT32.min, INT32.max], "int64"), "int32"),
        (np.array([0, INT32.max], "uint64"), "int32"),
        (np.array([1.5, -np.inf, np.nan, 1e300 * 0, 3.4e38]), "float32"),
        (np.array([2**32 - 1], "uint32"), "uint32"),
        (np.array([1.5], "float16"), "float16"),
        (np.array([True, False]), "bool"),
        (np.zeros((0, 3), "int64"), "int32"),
    ],
)
def test_values_that_fit(narrow, values, dtype):
    result = narrow(values)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, values.astype(dtype))


@WAYS
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([0, 2**31]), "y is int64 and has values that do not fit into int32"),
        (np.array([-(2**31) - 1]), "y is int64 and has values that do not fit into int32"),
        (np.array([2**31], "uint64"), "y is uint64 and has values that do not fit into int32"),
        (np.array([2**63], "uint64"), "y is uint64 and has values that do not fit into int32"),
        (np.array([0.0, 1e39]), "y is float64 and has values that do not fit into float32"),
    ],
)
def test_values_that_do_not_fit(narrow, values, message):
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=message):
        narrow(values)


def test_the_error_tells_the_range():
    with pytest.raises(ValueError, match=r"Received: values from -1 to 2147483648\."):
        as_array(np.array([-1, 2**31]))
    with pytest.raises(ValueError, match=r"Received: a value of magnitude 1e\+39\."):
        as_array(np.array([-1e39, np.nan, np.inf]))


@pytest.mark.parametrize("dtype", ["string", "complex64", "complex128", "object"])
def test_types_that_no_ipu_has(dtype):
    with pytest.raises(ValueError, match=rf"Model 'm': input x has elements of type {dtype}"):
        narrowing.check_supported("x", dtype, model="m")


class Column:
    """The attributes of an array that a column of a table has."""

    def __init__(self, values):
        self.values = values
        self.shape, self.dtype = values.shape, values.dtype

    def __array__(self, dtype=None, copy=None):
        return self.values

    def astype(self, dtype):
        return Column(self.values.astype(dtype))


def test_columns_stay_columns():
    narrow = as_array(Column(np.array([1, 2])))
    assert isinstance(narrow, Column)
    assert narrow.dtype == "int32"
