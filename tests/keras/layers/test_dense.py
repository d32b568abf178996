"""SerialDense: equal to Dense, in pieces; errors."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.keras.layers import SerialDense

DIMENSIONS = ("input_columns", "input_rows_kernel_columns", "kernel_rows")


def pair(dimension, x, **kwargs):
    ours = SerialDense(6, 2, dimension, **kwargs)
    stock = keras.layers.Dense(6, **kwargs)
    ours(x), stock(x)
    stock.set_weights(ours.get_weights())
    return ours, stock


@pytest.mark.fast_cells(9)
@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("shape", [(4, 8), (3, 4, 8), (2, 3, 4, 8)])
@pytest.mark.parametrize(
    "kwargs",
    [{}, {"use_bias": False}, {"activation": "tanh", "bias_initializer": "ones"}],
    ids=["plain", "no bias", "tanh"],
)
def test_outputs_and_gradients_equal_those_of_dense(dimension, shape, kwargs):
    x = tf.constant(np.random.default_rng(2).normal(size=shape), tf.float32)
    ours, stock = pair(dimension, x, **kwargs)
    results = []
    for layer in (ours, stock):
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = layer(x)
            loss = tf.reduce_sum(outputs**2)
        sources = [x, *layer.weights]
        results.append([outputs, *tape.gradient(loss, sources)])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_what_the_compiler_reads():
    layer = SerialDense(6, 2, "kernel_rows")
    assert layer.serialization_factor == 2
    assert layer.serialization_dimension == "kernel_rows"


def test_regularizers_count():
    x = np.ones((4, 8), "float32")
    ours, stock = pair("kernel_rows", x, kernel_regularizer="l2", activity_regularizer="l2")
    ours(x), stock(x)
    np.testing.assert_allclose(ours.losses, stock.losses, rtol=1e-6)


def test_shapes_of_symbolic_inputs():
    assert SerialDense(6, 2, "input_columns")(keras.Input((8,))).shape == (None, 6)


@pytest.mark.parametrize("factor", [0, -2, 2.0])
def test_the_factor_is_checked(factor):
    message = f"SerialDense: serialization_factor must be.*Received: .*={factor}"
    with pytest.raises(ValueError, match=message):
        SerialDense(6, factor, "kernel_rows")


def test_the_dimension_is_checked():
    message = "SerialDense: invalid serialization_dimension='rows', expected one of: input_columns"
    with pytest.raises(ValueError, match=message):
        SerialDense(6, 2, "rows")


@pytest.mark.parametrize(
    ("dimension", "extent"), [("input_columns", 4), ("input_rows_kernel_columns", 8)]
)
def test_the_factor_divides_the_extent(dimension, extent):
    message = f"'serial': .*dimension='{dimension}' splits. Received: .*=5, extent {extent}"
    with pytest.raises(ValueError, match=message):
        SerialDense(6, 5, dimension, name="serial")(np.ones((4, 8), "float32"))


def test_a_later_batch_has_to_fit_too():
    layer = SerialDense(6, 2, "input_columns")
    layer(np.ones((4, 8), "float32"))
    with pytest.raises(ValueError, match=r"serialization_factor \(2\) must divide .* extent 3"):
        layer(np.ones((3, 8), "float32"))
