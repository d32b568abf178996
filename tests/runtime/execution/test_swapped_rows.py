"""Transposes of the first two dimensions: the rows of stock, copied."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from ipu_tf.ops.kernels import library
from tests.ops.tile_cases import normals
from tests.runtime.execution.test_fusion import live_types, random, traced, types_behind


@pytest.fixture
def strategy():
    return IPUStrategy(enable_keras_extensions=False)


@pytest.mark.parametrize(
    "shape", [(3, 5, 7), (1, 9, 16), (40, 30, 64), (300, 2, 128), (2, 300, 4, 40), (0, 3, 4)]
)
def test_rows_change_places(shape):
    x = normals(0, shape)
    swapped = library.load().ipu_swap_rows(x, rank=len(shape))
    np.testing.assert_array_equal(swapped, np.swapaxes(x, 0, 1))


def test_a_matrix_has_no_rows_in_two_dimensions():
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"two dimensions. Received the shape \[3,5\]"
    ):
        library.load().ipu_swap_rows(tf.zeros([3, 5]), rank=2)


def swapped(x):
    return tf.transpose(x, [1, 0, 2])


def test_a_transpose_and_its_gradient_are_replaced(strategy):
    def fn(x, dy):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.sin(swapped(x))
        return y, tape.gradient(y, x, output_gradients=dy)

    operands = random(40, 30, 64), random(30, 40, 64, seed=1)
    function = traced(strategy, fn, operands)
    types = types_behind(tensor.op for tensor in function.graph.outputs)
    assert types["IpuSwapRows"] == 2
    assert "Transpose" not in types
    for ours, stock in zip(function(*operands), fn(*operands), strict=True):
        np.testing.assert_allclose(ours, stock, rtol=1e-6, atol=1e-6)


def test_a_tape_outside_differentiates_it(strategy):
    x = random(40, 30, 64)
    step = tf.function(swapped)
    strategy.run(step, args=(x,))  # Traced, and replaced, while nothing is recorded.
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.sin(strategy.run(step, args=(x,)))
    np.testing.assert_array_equal(tape.gradient(y, x), tf.cos(x))


@pytest.mark.parametrize(
    ("shape", "order", "dtype"),
    [
        ((40, 30, 64), (0, 2, 1), tf.float32),
        ((40, 30, 64), (1, 0, 2), tf.float16),
        ((40, 30, 8), (1, 0, 2), tf.float32),
        ((400, 300, 8), (1, 0, 2), tf.float32),
        ((400, 300), (1, 0), tf.float32),
    ],
)
def test_others_stay(strategy, shape, order, dtype):
    function = traced(strategy, lambda x: tf.transpose(x, order), [tf.zeros(shape, dtype)])
    assert "Transpose" in live_types(function)


def test_the_steps_of_a_layer_are_swapped():
    own = IPUStrategy()
    with own.scope():
        model = keras.Sequential([keras.Input((20, 64)), keras.layers.GRU(8)])
        model.compile("sgd", "mse")
    data = tf.constant(normals(0, (64, 20, 64))), tf.constant(normals(1, (64, 8)))
    step = tf.function(lambda data: own.run(model.train_step, args=(data,)))
    graph = step.get_concrete_function(data).graph
    read = {tensor.op.type for op in graph.get_operations() for tensor in op.inputs}
    assert "IpuSwapRows" in read
