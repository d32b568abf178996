"""Biases after products that are reshaped, joined with them."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from ipu_tf.ops.kernels import library
from ipu_tf.runtime.execution import fusion
from tests.runtime.execution.test_fusion import gradients_of, live_types, random, traced


@pytest.fixture
def strategy():
    return IPUStrategy(enable_keras_extensions=False)


# Products of rows, then a bias of the last dimensions: their operands follow.
RESHAPED = {
    "heads": lambda x, w, b: tf.reshape(tf.matmul(x, w), (6, 20, 4, 9)) + tf.reshape(b, (4, 9)),
    "bias first": lambda x, w, b: b + tf.matmul(x, w),
    "rows of sequences": lambda x, w, b: tf.nn.bias_add(
        tf.reshape(tf.matmul(tf.reshape(x, (120, 48)), w), (6, 20, 36)), b
    ),
    "no reshape": lambda x, w, b: tf.nn.bias_add(tf.matmul(x, w), b),
    "transposed matrix": lambda x, w, b: tf.nn.relu(
        tf.matmul(x, tf.reshape(w, (36, 48)), transpose_b=True) + b
    ),
    "columns": lambda x, w, b: (
        tf.reshape(tf.matmul(tf.reshape(x, (48, 120)), w, transpose_a=True), (5, 24, 36)) + b
    ),
}
ROWS = (random(6, 20, 48, seed=1), random(48, 36, seed=2), random(36, seed=3))


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("name", RESHAPED)
def test_a_bias_after_a_reshape_has_the_bits_of_its_pieces(monkeypatch, strategy, name):
    function = traced(strategy, RESHAPED[name], ROWS)
    types = set(live_types(function))
    assert "IpuReshapedMatMulBias" in types
    assert not {"AddV2", "BiasAdd", "Relu", "IpuMatMul", "IpuBatchMatMul"} & types
    with monkeypatch.context() as patched:
        patched.setattr(fusion, "fuse", lambda graph, outputs, **_: outputs)
        pieces = traced(IPUStrategy(enable_keras_extensions=False), RESHAPED[name], ROWS)
    np.testing.assert_array_equal(function(*ROWS), pieces(*ROWS))


@pytest.mark.parametrize("name", ["heads", "transposed matrix"])
def test_gradients_by_a_tape_outside_of_a_bias_after_a_reshape(strategy, name):
    step = tf.function(RESHAPED[name])
    strategy.run(step, args=ROWS)
    ours = gradients_of(lambda *a: strategy.run(step, args=a), ROWS)
    for mine, stock in zip(ours, gradients_of(RESHAPED[name], ROWS), strict=True):
        np.testing.assert_allclose(mine, stock, rtol=1e-4, atol=1e-4)


OTHER_BIASES = {
    "of part of the columns": lambda x, w, b: tf.reshape(tf.matmul(x, w), (6, 20, 4, 9)) + b[:9],
    "of several rows": lambda x, w, b: tf.matmul(x, w) + tf.reshape(x, (-1, 36))[:20],
    "of one number": lambda x, w, b: tf.matmul(x, w) + b[0],
    "itself": lambda x, w, b: (y := tf.matmul(x, w)) + y,
    "of a product that is read elsewhere": lambda x, w, b: ((y := tf.matmul(x, w)), y + b),
    "of first channels": lambda x, w, b: tf.nn.bias_add(
        tf.matmul(x, w), b[:20], data_format="NCHW"
    ),
}


@pytest.mark.parametrize("name", OTHER_BIASES)
def test_other_biases_stay(strategy, name):
    function = traced(strategy, OTHER_BIASES[name], ROWS)
    assert "IpuReshapedMatMulBias" not in live_types(function)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize(
    ("x", "y", "attributes"),
    [
        ((2048, 256), (256, 1024), {}),  # Streamed.
        ((300, 3000), (3000, 130), {}),  # In parts.
        ((300, 1500), (1500, 130), {"partials": "float16"}),
        ((1500, 300), (1500, 130), {"adj_x": True}),
        ((300, 1500), (130, 1500), {"adj_y": True}),
        ((3, 5), (5, 7), {}),
    ],
)
def test_products_with_a_bias_have_the_bits_of_their_pieces(x, y, attributes, relu):
    kernels = library.load()
    operands = random(*x, seed=1), random(*y, seed=2)
    wanted = kernels.ipu_batch_mat_mul(*operands, **attributes)
    bias = random(wanted.shape[1], seed=3)
    wanted = tf.nn.relu(wanted + bias) if relu else wanted + bias
    ours = kernels.ipu_reshaped_mat_mul_bias(
        *operands, bias, relu=relu, shape=wanted.shape, **attributes
    )
    np.testing.assert_array_equal(ours, wanted)


def test_a_shape_of_other_elements_is_an_error():
    x, y, b = tf.zeros((3, 5)), tf.zeros((5, 7)), tf.zeros(7)
    message = r"a product of \[3,7\] does not have the elements of \[2,7\]"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        library.load().ipu_reshaped_mat_mul_bias(x, y, b, shape=[2, 7])


def test_a_bias_of_heads_is_refused_where_nothing_is_reshaped():
    x, y, b = tf.zeros((3, 5)), tf.zeros((5, 8)), tf.zeros((2, 4))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"8 columns. Received: \[2,4\]"):
        library.load().ipu_mat_mul_bias(x, y, b)
