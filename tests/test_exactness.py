"""Training under the strategy is stock Keras training, up to float32 rounding."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from tests.networks import NETWORKS

STEPS = 20
SEED = 11


def initial_weights(network):
    keras.utils.set_random_seed(SEED)
    return network.build().get_weights()


def build(network, weights):
    model = network.build()
    model.set_weights(weights)
    return model


def gradients_of(model, x, y):
    """Returns a function that gives the gradients of one step of `model`."""
    loss = keras.losses.CategoricalCrossentropy()

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            value = loss(y, model(x, training=True))
        return tape.gradient(value, model.trainable_variables)

    return step


def trained(model, network, x, y):
    """Returns the model's weights as one float64 vector after `STEPS` steps of fit."""
    model.compile(
        loss="categorical_crossentropy", optimizer=keras.optimizers.SGD(network.learning_rate)
    )
    model.fit(x, y, batch_size=network.batch_size, epochs=1, shuffle=False, verbose=0)
    return np.concatenate([w.astype("float64").ravel() for w in model.get_weights()])


@pytest.fixture
def float64_policy():
    policy, floatx = keras.config.dtype_policy(), keras.config.floatx()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    yield
    keras.config.set_dtype_policy(policy)
    keras.config.set_floatx(floatx)


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_of_one_step(name):
    network = NETWORKS[name]
    weights = initial_weights(network)
    x, y = (tf.constant(part) for part in network.data(1))
    strategy = IPUStrategy()
    with strategy.scope():
        ours_model = build(network, weights)
    ours = strategy.run(gradients_of(ours_model, x, y), args=(x, y))
    stock = gradients_of(build(network, weights), x, y)(x, y)
    norm = float(tf.linalg.global_norm(stock))
    for mine, reference in zip(ours, stock, strict=True):
        assert float(tf.norm(mine - reference)) <= 1e-5 * norm
    assert strategy.report().tile_ops
    assert not strategy.report().native_ops


@pytest.mark.parametrize("name", NETWORKS)
def test_twenty_steps_are_as_close_to_float64_as_stock(name, float64_policy):
    network = NETWORKS[name]
    x, y = network.data(STEPS)
    with_float64 = build(network, initial_weights(network))
    start = [w.astype("float32") for w in with_float64.get_weights()]
    with_float64.set_weights(start)
    exact = trained(with_float64, network, x.astype("float64"), y.astype("float64"))

    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")
    stock = trained(build(network, start), network, x, y)
    with IPUStrategy().scope():
        ours = trained(build(network, start), network, x, y)

    assert np.linalg.norm(ours - exact) <= 2 * np.linalg.norm(stock - exact)
    if name == "mlp":
        assert np.linalg.norm(ours - stock) <= 1e-4 * np.linalg.norm(stock)
