"""Layers that capture gradients, alone and with automatic loss scaling."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.keras.layers import CaptureActivationGradients, CaptureUpstreamGradients
from ipu_tf.keras.optimizers import ALSOptimizer
from ipu_tf.ops.grad_util_ops import take_captured_gradients

X = np.random.default_rng(4).normal(size=(5, 3)).astype("float32")


def captured_in_a_step(layer, x=X):
    """The outputs of a layer, the gradient of its inputs, and what was captured."""

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = layer(x)
            loss = tf.reduce_sum(outputs**2)
        return outputs, tape.gradient(loss, x), take_captured_gradients()

    return step(tf.constant(x))


def test_upstream_gradients():
    dense = keras.layers.Dense(4, activation="tanh", name="dense")
    outputs, _, captured = captured_in_a_step(CaptureUpstreamGradients(dense))
    np.testing.assert_allclose(outputs, dense(X), rtol=1e-6)
    assert list(captured) == ["dense_cug"]
    np.testing.assert_allclose(captured["dense_cug"][0], 2 * outputs, rtol=1e-6)


def test_activation_gradients():
    dense = keras.layers.Dense(4, activation="tanh", name="dense")
    dense(X)
    layer = CaptureActivationGradients(dense)
    outputs, _, captured = captured_in_a_step(layer)
    np.testing.assert_allclose(outputs, dense(X), rtol=1e-6)
    assert list(captured) == ["dense_cag_activation"]
    expected = 2 * outputs * (1 - outputs**2)
    np.testing.assert_allclose(captured["dense_cag_activation"][0], expected, rtol=1e-5)


@pytest.mark.parametrize("kind", [CaptureUpstreamGradients, CaptureActivationGradients])
def test_gradients_flow_on_unchanged(kind):
    dense = keras.layers.Dense(4, activation="tanh")
    dense(X)
    _, plain, _ = captured_in_a_step(dense)
    _, through, _ = captured_in_a_step(kind(dense))
    np.testing.assert_array_equal(through, plain)


def test_tags():
    dense = keras.layers.Dense(4, activation="relu")
    layer = CaptureUpstreamGradients(dense, tag="mine")
    assert (layer.tag, layer.name, layer.layer) == ("mine", "mine", dense)
    _, _, captured = captured_in_a_step(CaptureActivationGradients(dense, tag="act"))
    assert list(captured) == ["act_activation"]


def test_weights_are_those_of_the_wrapped_layer():
    dense = keras.layers.Dense(4)
    layer = CaptureUpstreamGradients(dense)
    layer(X)
    assert [id(weight) for weight in layer.weights] == [id(weight) for weight in dense.weights]


def test_training_reaches_the_wrapped_layer():
    layer = CaptureUpstreamGradients(keras.layers.Dropout(0.5))
    assert np.any(layer(X, training=True) != X)
    np.testing.assert_array_equal(layer(X, training=False), X)


def test_symbolic_inputs():
    dense = keras.layers.Dense(4, activation="relu")
    for kind in (CaptureUpstreamGradients, CaptureActivationGradients):
        assert kind(dense)(keras.Input((3,))).shape == (None, 4)


def test_layers_that_are_supported():
    supported = CaptureActivationGradients.layer_is_supported
    assert supported(keras.layers.Dense(4, activation="relu"))
    assert supported(keras.layers.Conv2D(4, 3, activation="relu"))
    assert not supported(keras.layers.Dropout(0.5))
    assert not supported(keras.layers.LSTM(4))


@pytest.mark.parametrize("layer", [keras.layers.Dropout(0.5), keras.layers.LSTM(4)])
def test_layers_without_an_activation(layer):
    message = f"layer '{layer.name}' does not use an activation function, or .*Received: a layer of"
    with pytest.raises(ValueError, match=message):
        CaptureActivationGradients(layer)


@pytest.mark.parametrize("kind", [CaptureUpstreamGradients, CaptureActivationGradients])
def test_what_is_no_layer(kind):
    with pytest.raises(ValueError, match="expected an instance of a Keras layer.*Received: 'relu'"):
        kind("relu")


@pytest.mark.parametrize("kind", [CaptureUpstreamGradients, CaptureActivationGradients])
@pytest.mark.parametrize("captured_only", [False, True])
def test_loss_scaling_counts_the_captured_gradients_of_a_mixed_model(strategy, kind, captured_only):
    """Its variables have float32 gradients, its activations 20 x 4 float16 ones a step."""
    with strategy.scope():
        policy = "mixed_float16"
        model = keras.Sequential(
            [
                kind(keras.layers.Dense(4, activation="relu", dtype=policy)),
                keras.layers.Dense(1, dtype=policy),
            ]
        )
        optimizer = ALSOptimizer(keras.optimizers.SGD(0.01), captured_grads_only=captured_only)
        model.compile(optimizer=optimizer, loss="mse")
    x, y = np.ones((40, 3), "float32"), np.ones((40, 1), "float32")
    model.fit(x, y, batch_size=20, verbose=0)
    assert float(tf.reduce_sum(optimizer.histogram)) == 2 * 20 * 4
