"""What models train whose layers are frozen after `compile`, and updates of frozen layers."""

import contextlib

import keras
import numpy as np
import pytest

from ipu_tf import IPUStrategy

X = np.ones((4, 2), np.float32)
Y = np.zeros((4, 1), np.float32)


def dense():
    return keras.layers.Dense(1, kernel_initializer="ones", use_bias=False)


def adversarial(discriminator):
    """Compiles a discriminator, and the model in which it is frozen; returns the latter."""
    discriminator.compile("sgd", "mse", steps_per_execution=2)
    discriminator.trainable = False
    inputs = keras.Input((2,))
    generated = keras.layers.Dense(2, kernel_initializer="ones", use_bias=False)(inputs)
    model = keras.Model(inputs, discriminator(generated))
    model.compile("sgd", "mse", steps_per_execution=2)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("is_in_scope", [False, True])
def test_a_discriminator_is_frozen_in_the_model_around_it_alone(keras_2, notices, is_in_scope):
    with IPUStrategy().scope() if is_in_scope else contextlib.nullcontext():
        discriminator = keras.Sequential([keras.Input((2,)), dense()])
        model = adversarial(discriminator)
        (kernel,) = discriminator.get_weights()
        model.fit(X, Y, batch_size=2, verbose=0)
        np.testing.assert_array_equal(discriminator.get_weights()[0], kernel)
        for train in (
            lambda: discriminator.train_on_batch(X, Y),
            lambda: discriminator.fit(X, Y, batch_size=2, verbose=0),
        ):
            before = discriminator.get_weights()[0]
            train()
            assert np.abs(discriminator.get_weights()[0] - before).min() > 0
        assert not discriminator.trainable
    assert sum("after `compile`" in notice for notice in notices()) == 1


def test_what_trained_is_as_before_after_an_error(keras_2):
    model = keras.Sequential([keras.Input((2,)), dense()])
    model.compile("sgd", "mse")
    model.layers[0].trainable = False
    with pytest.raises(ValueError, match="rank|shape|cardinality"):
        model.train_on_batch(X, Y[:3])
    assert not model.layers[0].trainable


def test_updates_of_frozen_layers_are_not_called(keras_2):
    class Counting(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.count = self.add_weight(shape=(), initializer="zeros", trainable=False)

        def call(self, x):
            self.add_update(lambda: self.count.assign_add(1.0))
            return x

    layer = Counting()
    layer(X)
    layer.trainable = False
    layer(X)
    assert layer.count.numpy() == 1.0
    assert layer.updates == []
    assert layer._compute_dtype == "float32"
