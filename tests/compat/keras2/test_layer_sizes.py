"""Sizes of layers that are not whole numbers of Python."""

import keras
import numpy as np
import pytest

layers = keras.layers


def test_sizes_may_be_numpy_numbers(keras_2, notices):
    labels = np.array([0, 2, 1])
    assert layers.Dense(np.max(labels) + 1).units == 3
    assert layers.Dense(units=7 / 2).units == 3
    assert layers.Embedding(np.int64(9), output_dim=np.int32(2)).input_dim == 9
    assert layers.RepeatVector(np.int64(2)).n == 2
    assert layers.UpSampling1D(size=np.int64(2)).size == 2
    notices.once("NumPy numbers as sizes")


def test_stock_sizes_are_as_they_are(keras_2, notices):
    assert layers.Dense(3).units == 3
    with pytest.raises(ValueError, match="invalid value for `units`"):
        layers.Dense("3")
    assert not notices()
