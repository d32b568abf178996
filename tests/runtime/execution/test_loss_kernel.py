"""The loss of a classifier with many scores, which a kernel of ours computes."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from ipu_tf.ops.kernels import library
from tests.ops.tile_cases import normals
from tests.runtime.execution.test_fusion import live_types, traced

STOCK = "SparseSoftmaxCrossEntropyWithLogits"


def stock(scores, labels):
    return tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(features=scores, labels=labels)


def ours(scores, labels):
    return library.load().ipu_sparse_softmax_loss(scores, labels)


def labels_of(rows, classes, dtype=tf.int32):
    return tf.constant(np.arange(rows) * 7 % classes, dtype)


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (40, 10), (9, 16), (7, 33), (2, 1000)])
def test_loss_and_gradient_are_those_of_float64(shape, dtype):
    scores, labels = tf.constant(normals(0, shape, scale=5)), labels_of(*shape, dtype)
    exact = stock(tf.cast(scores, tf.float64), labels)
    for value, wanted in zip(ours(scores, labels), exact, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_as_in_the_stock_op(value):
    scores = normals(0, (3, 21))
    scores[0, 4] = value
    scores[1, :] = value
    labels = tf.constant([2, 3, 4])
    for got, wanted in zip(ours(scores, labels), stock(scores, labels), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=2e-6)


def test_scores_of_any_size_give_finite_losses():
    scores = tf.constant([[0.0, 1e30], [-1e30, 3e4], [200.0, -200.0]])
    loss, gradient = ours(scores, tf.constant([1, 1, 1]))
    np.testing.assert_allclose(loss, [0, 0, 400])
    np.testing.assert_allclose(gradient, [[0, 0], [0, 0], [1, -1]], atol=1e-37)


@pytest.mark.parametrize("label", [-1, 5])
def test_a_label_that_is_no_class_is_named(label):
    message = f"label 1 is not one of the 5 classes, which count from 0. Received: {label}"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        ours(tf.zeros((2, 5)), [0, label])


@pytest.mark.parametrize("shapes", [((5,), (5,)), ((2, 5), (3,)), ((2, 0), (2,)), ((2, 5), (2, 1))])
def test_shapes_that_do_not_fit_are_named(shapes):
    scores, labels = shapes
    with pytest.raises(tf.errors.InvalidArgumentError, match="a label for each. Received the"):
        ours(tf.zeros(scores), tf.zeros(labels, tf.int32))


def loss_and_gradients(scores, labels):
    with tf.GradientTape() as tape:
        tape.watch(scores)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores) ** 2
    return loss, tape.gradient(loss, scores)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("shape", [(70, 1000), (7000, 10)])
def test_many_scores_of_a_program(shape):
    operands = [tf.constant(normals(0, shape)), labels_of(*shape)]
    function = traced(IPUStrategy(enable_keras_extensions=False), loss_and_gradients, operands)
    types = live_types(function)
    assert "IpuSparseSoftmaxLoss" in types
    assert STOCK not in types
    for value, wanted in zip(function(*operands), loss_and_gradients(*operands), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "dtype"), [((60, 10), tf.float32), ((7000, 10), tf.float16)], ids=["few", "halves"]
)
def test_others_stay(shape, dtype):
    operands = [tf.zeros(shape, dtype), labels_of(*shape)]
    own = IPUStrategy(enable_keras_extensions=False)
    types = live_types(traced(own, lambda *values: tuple(stock(*values)), operands))
    assert STOCK in types
    assert "IpuSparseSoftmaxLoss" not in types


def test_gradient_is_that_of_the_stock_op():
    scores, labels = tf.constant(normals(0, (4, 6))), labels_of(4, 6)

    def second_order(op):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(scores)
            loss, gradient = op(scores, labels)
            value = tf.reduce_sum(tf.sin(loss))
            other = tf.reduce_sum(gradient**2)
        return tape.gradient(value, scores), tape.gradient(other, scores)

    for got, wanted in zip(second_order(ours), second_order(stock), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-6)
