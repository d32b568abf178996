"""Sums of tensors whose shapes broadcast."""

import itertools

import keras
import numpy as np
import pytest

SHAPES = [
    (4, 4),
    (4, 1),
    (1, 4),
    (4,),
    (4, 4, 4),
    (4, 1, 1),
    (1, 4, 1),
    (1, 1, 4),
    (4, 3),
    (2, 4, 1),
]


def pairs():
    for a, b in itertools.product(SHAPES, SHAPES):
        try:
            np.broadcast_shapes(a, b)
        except ValueError:
            continue
        yield a, b


def test_sums_broadcast(keras_2, notices):
    rng = np.random.default_rng(1)
    for a, b in pairs():
        x, y = rng.random(a, dtype=np.float32), rng.random(b, dtype=np.float32)
        np.testing.assert_array_equal(keras.ops.add(x, y), x + y, err_msg=f"{a} + {b}")
    notices.once("`x + y`")


def test_a_column_is_added_to_the_rows_of_a_model(keras_2):
    x, column = keras.Input((4,), batch_size=4), keras.Input((1,), batch_size=4)
    model = keras.Model([x, column], keras.layers.Add()([x, column]))
    values = np.arange(4, dtype=np.float32)[:, np.newaxis]
    np.testing.assert_array_equal(
        model([np.zeros((4, 4), np.float32), values]), values + np.zeros(4)
    )


@pytest.mark.parametrize("shape", [(4,), (1, 4)])
def test_a_bias_is_added_as_keras_3_does(keras_2, notices, shape):
    bias = np.arange(4, dtype=np.float32).reshape(shape)
    np.testing.assert_array_equal(
        keras.ops.add(np.ones((3, 4), np.float32), bias)[0], 1 + np.arange(4)
    )
    assert notices() == []
