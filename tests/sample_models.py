"""Functions that make models, or do not, for tests of estimates and of the command line."""

import keras
import tensorflow as tf


def mlp():
    """An uncompiled classifier."""
    return keras.Sequential(
        [
            keras.Input((16,)),
            keras.layers.Dense(32, activation="relu", name="hidden"),
            keras.layers.Dense(4, activation="softmax", name="classes"),
        ],
        name="mlp",
    )


def compiled():
    """The same, compiled with Adam."""
    model = mlp()
    model.compile(optimizer="adam", loss="categorical_crossentropy", metrics=["accuracy"])
    return model


def without_static_shape():
    """A model of sequences of any length."""
    inputs = keras.Input((None, 8), name="tokens")
    return keras.Model(inputs, keras.layers.Dense(4)(inputs), name="open")


class Subclass(keras.Model):
    """A model that does not declare its inputs."""

    def __init__(self):
        super().__init__(name="subclass")
        self.dense = keras.layers.Dense(3)

    def call(self, x):
        return self.dense(x)


def subclass():
    """An uncompiled subclass."""
    return Subclass()


def spectrum():
    """A model with an operation that has no cost on the machine."""
    inputs = keras.Input((16,))
    layer = keras.layers.Lambda(
        lambda x: tf.math.real(tf.signal.fft(tf.cast(x, tf.complex64))), name="spectrum"
    )
    return keras.Model(inputs, keras.layers.Dense(4)(layer(inputs)), name="spectral")


def of_width(width):
    """A model, for those who say how wide."""
    return keras.Sequential([keras.Input((width,)), keras.layers.Dense(4)])


class OfWidth(keras.Sequential):
    """A model of a width that its maker gives."""

    def __init__(self, width):
        super().__init__([keras.Input((width,)), keras.layers.Dense(4)])


class OfFixedWidth(keras.Sequential):
    """A model whose class is all that makes it."""

    def __init__(self):
        super().__init__([keras.Input((8,)), keras.layers.Dense(4)], name="fixed")


class NotAModel:
    """No model either."""


def not_a_model():
    """No model."""
    return 3


def failing():
    """Raises an error of its own."""
    raise ValueError("the user's own mistake")


NOT_A_FUNCTION = 3
MODEL = mlp()
LAYER = keras.layers.Dense(2)
