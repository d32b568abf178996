"""Layers and bases of the vendor's that refuse what Keras has and the IPU does not use."""

import keras
import numpy as np
import pytest

from ipu_tf.keras.extensions import FunctionalExtension, SequentialExtension
from ipu_tf.keras.layers.dense import Dense
from ipu_tf.keras.layers.ipu_layer import IPULayer

X = np.linspace(-1, 1, 12, dtype="float32").reshape(4, 3)


def test_dense_is_that_of_keras():
    layer = Dense(2, activation="relu", use_bias=False)
    layer.build(X.shape)
    (kernel,) = layer.get_weights()
    np.testing.assert_allclose(layer(X), np.maximum(X @ kernel, 0), rtol=1e-5, atol=1e-6)
    copy = Dense.from_config(layer.get_config())
    assert (copy.units, copy.activation) == (2, keras.activations.relu)


def test_float8_is_refused():
    with pytest.raises(NotImplementedError, match="does not support __init__ argument kernel_sca"):
        Dense(2, kernel_scale=3)
    with pytest.raises(NotImplementedError, match="'dense.*': the float8 of the IPU is not simul"):
        Dense(2)([X, X])


def test_layers_of_users_refuse_arguments():
    class Own(IPULayer):
        def __init__(self, mask_zero=False):
            self._check_unsupported(mask_zero, "mask_zero")
            super().__init__()

        def call(self, inputs, mask=None):
            self._check_unsupported(mask, "mask", "call")
            return inputs

    np.testing.assert_array_equal(Own()(X), X)
    with pytest.raises(NotImplementedError, match="Own does not support __init__ argument mask_z"):
        Own(mask_zero=True)
    with pytest.raises(NotImplementedError, match="Own does not support call argument mask"):
        Own()(X, mask=np.ones(4, bool))


def test_models_of_the_scope_have_the_extensions(strategy):
    with strategy.scope():
        model = keras.Sequential([keras.layers.Dense(1)])
    assert isinstance(model, SequentialExtension)
    assert isinstance(model, FunctionalExtension)
    assert not isinstance(keras.Sequential(), SequentialExtension)
