"""Layers that pass their inputs on."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.keras.layers import AssumeEqualAcrossReplicas, RecomputationCheckpoint

MAKERS = {
    "assume equal": AssumeEqualAcrossReplicas,
    "assume equal in place": lambda: AssumeEqualAcrossReplicas(inplace=True),
    "checkpoint": RecomputationCheckpoint,
}


@pytest.fixture(params=MAKERS.values(), ids=MAKERS.keys())
def layer(request):
    return request.param()


def test_values_and_gradients_stay(layer):
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(layer(x) ** 2)
    np.testing.assert_array_equal(layer(x), x)
    np.testing.assert_array_equal(tape.gradient(loss, x), 2 * x)


def test_structures_stay(layer):
    inputs = {"a": tf.ones(2), "b": [tf.zeros(3, tf.int32)]}
    outputs = layer(inputs)
    tf.nest.assert_same_structure(outputs, inputs)
    assert outputs["b"][0].dtype == "int32"


def test_symbolic_inputs(layer):
    outputs = layer([keras.Input((3,)), keras.Input((2, 4), dtype="int32")])
    assert [tensor.shape for tensor in outputs] == [(None, 3), (None, 2, 4)]
    assert [tensor.dtype for tensor in outputs] == ["float32", "int32"]


def test_what_the_compiler_reads():
    assert AssumeEqualAcrossReplicas(inplace=True).inplace is True
    assert AssumeEqualAcrossReplicas().inplace is False
