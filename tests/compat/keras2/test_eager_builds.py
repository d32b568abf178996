"""Tensors that a script's layer makes in `build` outlive the graph that calls it."""

import keras
import numpy as np
import tensorflow as tf

from ipu_tf import IPUStrategy


class Masked(keras.layers.Layer):
    """Multiplies by a mask that is drawn once."""

    def build(self, input_shape):
        self.mask = tf.math.ceil(tf.random.uniform(input_shape[1:]) - 0.5)
        assert tf.executing_eagerly()

    def call(self, inputs):
        return inputs * self.mask


def test_a_layer_keeps_a_tensor_of_its_build(keras_2):
    with IPUStrategy().scope():
        masked = Masked()
        x = keras.Input((16,), batch_size=2)
        model = keras.Model(x, masked(masked(x)))
        found = model.predict(np.ones((4, 16), np.float32), batch_size=2, verbose=0)
    np.testing.assert_array_equal(found, np.tile(masked.mask, (4, 1)))
    assert len(model.weights) == 0
