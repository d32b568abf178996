"""Tapes that keep captured gradients."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from ipu_tf.eager import backprop
from ipu_tf.ops.grad_util_ops import capture_upstream_gradients


def test_a_tape_keeps_captured_gradients():
    seen = {}

    @tf.function
    def step(x):
        with backprop.GradientCaptureTape() as tape:
            tape.watch(x)
            seen["open"] = backprop.num_gradient_collection_tapes()
            y = capture_upstream_gradients(x**2, tag="square")
            loss = tf.reduce_sum(y * [3.0, 5.0])
        gradient = tape.gradient(loss, x)
        (captured,) = tape.captured_gradients["square"]
        return gradient, captured

    gradient, captured = step(tf.constant([1.0, 2.0]))
    np.testing.assert_array_equal(gradient, [6, 20])
    np.testing.assert_array_equal(captured, [3, 5])
    assert seen["open"] == 1
    assert backprop.num_gradient_collection_tapes() == 0


def test_a_context_keeps_those_of_other_tapes():
    @tf.function
    def step(x):
        with backprop.GradientCaptureContext() as context:
            for factor in (2.0, 3.0):
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    loss = factor * capture_upstream_gradients(x, tag="x")
                tape.gradient(loss, x)
        return context.captured_gradients

    assert [float(one) for one in step(tf.constant(1.0))["x"]] == [2, 3]


def test_a_program_captures_only_for_a_context():
    @tf.function
    def program(x):
        with tf.GradientTape():
            return capture_upstream_gradients(x, tag="lost")

    with pytest.raises(RuntimeError, match="may only be used within the context of .*tag='lost'"):
        IPUStrategy().run(program, args=(tf.constant(1.0),))
