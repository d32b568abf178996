"""Small networks of every kind that the exactness tests train, as plain Keras builders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import keras
import numpy as np
from keras import layers


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A model to train.

    Attributes:
        build: Returns the model, uncompiled, in the global dtype policy.
        input_shape: Shape of one example.
        classes: Number of classes.
        batch_size: Examples of one step.
        learning_rate: Of plain SGD.
    """

    build: Callable[[], keras.Model]
    input_shape: tuple[int, ...]
    classes: int
    batch_size: int
    learning_rate: float = 0.016

    def data(self, steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns examples and one-hot labels for a number of steps."""
        random = np.random.default_rng(seed)
        count = steps * self.batch_size
        x = random.normal(size=(count, *self.input_shape)).astype("float32")
        y = np.eye(self.classes, dtype="float32")[random.integers(0, self.classes, count)]
        return x, y


def mlp() -> keras.Model:
    """An MLP 64-128-64-10."""
    return keras.Sequential(
        [
            keras.Input((64,)),
            layers.Dense(128, activation="relu"),
            layers.Dense(64, activation="tanh"),
            layers.Dense(10, activation="softmax"),
        ]
    )


def cifar10() -> keras.Model:
    """The CIFAR-10 network of the tutorial without its dropout."""
    return keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(512, activation="relu"),
            layers.Dense(10, activation="softmax"),
        ]
    )


def resnet() -> keras.Model:
    """A small ResNet: a strided stem, four residual blocks, batch norm throughout."""

    def normed(x: keras.KerasTensor, filters: int, size: int, strides: int) -> keras.KerasTensor:
        x = layers.Conv2D(filters, size, strides, padding="same", use_bias=False)(x)
        return layers.BatchNormalization()(x)

    inputs = keras.Input((8, 8, 3))
    x = layers.ReLU()(normed(inputs, 16, 3, 1))
    for filters, strides in ((16, 1), (32, 2), (32, 1), (64, 2)):
        y = layers.ReLU()(normed(x, filters, 3, strides))
        y = normed(y, filters, 3, 1)
        if strides != 1 or x.shape[-1] != filters:
            x = normed(x, filters, 1, strides)
        x = layers.ReLU()(layers.add([x, y]))
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(10, activation="softmax")(x))


def transformer() -> keras.Model:
    """One encoder block: attention, feed-forward, layer norm."""
    inputs = keras.Input((12, 32))
    x = layers.LayerNormalization()(inputs)
    x = layers.add([inputs, layers.MultiHeadAttention(4, 8)(x, x)])
    y = layers.LayerNormalization()(x)
    y = layers.Dense(32)(layers.Dense(64, activation="gelu")(y))
    x = layers.GlobalAveragePooling1D()(layers.add([x, y]))
    return keras.Model(inputs, layers.Dense(10, activation="softmax")(x))


def lstm() -> keras.Model:
    """An LSTM over 10 time steps."""
    return keras.Sequential(
        [keras.Input((10, 8)), layers.LSTM(32), layers.Dense(10, activation="softmax")]
    )


NETWORKS = {
    "mlp": Network(build=mlp, input_shape=(64,), classes=10, batch_size=4, learning_rate=0.1),
    "cifar10": Network(build=cifar10, input_shape=(32, 32, 3), classes=10, batch_size=4),
    "resnet": Network(build=resnet, input_shape=(8, 8, 3), classes=10, batch_size=4),
    "transformer": Network(build=transformer, input_shape=(12, 32), classes=10, batch_size=4),
    "lstm": Network(build=lstm, input_shape=(10, 8), classes=10, batch_size=4),
}
