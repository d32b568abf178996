"""Captured gradients."""

import numpy as np
import tensorflow as tf

from ipu_tf.ops import grad_util_ops


def captured_of(fn, *arguments):
    """The gradients of a function's arguments, and those captured on the way."""

    @tf.function
    def gradients(*tensors):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            loss = fn(*tensors)
        return tape.gradient(loss, tensors), grad_util_ops.take_captured_gradients()

    return gradients(*map(tf.constant, arguments))


def test_the_upstream_gradient_is_captured_and_passed_on():
    def square_of_double(x):
        return tf.square(2.0 * grad_util_ops.capture_upstream_gradients(3.0 * x, tag="x"))

    (gradient,), captured = captured_of(square_of_double, 1.0)
    assert list(captured) == ["x"]
    np.testing.assert_allclose(captured["x"], [24.0])
    np.testing.assert_allclose(gradient, 72.0)


def test_structures_keep_their_form():
    def product(a, b):
        pair = grad_util_ops.capture_upstream_gradients({"a": a, "b": b}, tag="pair")
        return pair["a"] * pair["b"]

    gradients, captured = captured_of(product, 2.0, 5.0)
    np.testing.assert_allclose(gradients, [5.0, 2.0])
    np.testing.assert_allclose(captured["pair"], [5.0, 2.0])


def test_one_tag_collects_all_that_flow():
    def twice(x):
        y = grad_util_ops.capture_upstream_gradients(x, tag="t")
        return 2.0 * y + 3.0 * grad_util_ops.capture_upstream_gradients(x, tag="t")

    _, captured = captured_of(twice, 1.0)
    np.testing.assert_allclose(sorted(captured["t"]), [2.0, 3.0])


def test_gradients_are_taken_once():
    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = grad_util_ops.capture_upstream_gradients(x, tag="x")
        tape.gradient(loss, x)
        return len(grad_util_ops.take_captured_gradients()), len(
            grad_util_ops.take_captured_gradients()
        )

    assert [int(count) for count in step(tf.constant(1.0))] == [1, 0]


def test_nothing_is_captured_eagerly():
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.square(grad_util_ops.capture_upstream_gradients(x, tag="x"))
    assert float(tape.gradient(loss, x)) == 4.0
    assert grad_util_ops.take_captured_gradients() == {}
