"""Trains small models of tf_keras on the IPU and in stock tf_keras, and compares them."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy

tf_keras = pytest.importorskip("tf_keras")

RANDOM = np.random.default_rng(11)
X = RANDOM.normal(size=(48, 6)).astype("float32")
Y = RANDOM.integers(0, 3, 48).astype("int32")
TOKENS = RANDOM.integers(0, 10, (48, 4)).astype("int32")


def strategy_of(ipus=1, **options):
    cfg = IPUConfig()
    cfg.auto_select_ipus = ipus
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.configure_ipu_system()
    return IPUStrategy(**options)


def sequential():
    layers = tf_keras.layers
    return tf_keras.Sequential(
        [layers.Dense(8, activation="relu"), layers.BatchNormalization(), layers.Dense(3)]
    )


def sequential_of_dense():
    layers = tf_keras.layers
    return tf_keras.Sequential([layers.Dense(8, activation="relu"), layers.Dense(3)])


def functional():
    inputs = tf_keras.Input((6,))
    hidden = tf_keras.layers.Dense(8, activation="relu", kernel_regularizer="l2")(inputs)
    return tf_keras.Model(inputs, tf_keras.layers.Dense(3)(hidden + 1))


def embedded():
    layers = tf_keras.layers
    return tf_keras.Sequential(
        [layers.Embedding(10, 6, input_length=4), layers.Flatten(), layers.Dense(3)]
    )


def trained(strategy, build, optimizer, *, setup=lambda model: None, steps=1, x=X, **fit):
    """A compiled and trained model, and the logs of its training."""
    with strategy.scope() if strategy else contextlib.nullcontext():
        tf_keras.utils.set_random_seed(3)
        model = build()
        loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer(), loss, metrics=["accuracy"], steps_per_execution=steps)
        setup(model)
        data = (x,) if isinstance(x, tf.data.Dataset) else (x, Y)
        history = model.fit(*data, verbose=0, **fit)
    return model, history.history


def check_equal(ours, stock, rtol=1e-5):
    """Both have the same logs, and the same weights."""
    (model, logs), (other, other_logs) = ours, stock
    assert set(logs) == set(other_logs)
    for name, values in other_logs.items():
        np.testing.assert_allclose(logs[name], values, rtol=rtol, err_msg=name)
    check_equal_weights(model, other)


def check_equal_weights(model, other):
    for weight, other_weight in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(weight, other_weight, rtol=1e-4, atol=1e-6)
