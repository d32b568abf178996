"""The zoo's networks train on the IPU as in stock Keras."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy, zoo
from tests.zoo import tiny

NOISY = {"efficientnet_b0", "mobilenet_v2", "mobilenet_v3_small"}
"""Networks whose dropout draws other masks, or whose norms see two pixels."""


def results(make, network, data):
    """Predictions before training, and the losses of two epochs of one batch."""
    keras.utils.set_random_seed(3)
    model = make()
    model.compile(optimizer=keras.optimizers.SGD(0.01), loss=network.loss)
    inputs, targets = (tuple(part) if isinstance(part, list) else part for part in data)
    batches = tf.data.Dataset.from_tensors((inputs, targets))
    predictions = model.predict(tf.data.Dataset.from_tensors((inputs,)), verbose=0)
    losses = model.fit(batches, epochs=2, verbose=0).history["loss"]
    return keras.tree.flatten(predictions), losses


@contextlib.contextmanager
def without_fusion():
    """Has TensorFlow's graphs run as they are written.

    TensorFlow 2.21 fuses convolutions and leaky ReLUs on the CPU, to a result that is wrong.
    """
    tf.config.optimizer.set_experimental_options({"remapping": False})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({"remapping": True})


@pytest.mark.slow
@pytest.mark.parametrize("name", tiny.NETWORKS)
def test_networks_run_and_train_as_in_stock_keras(name):
    make, data = tiny.NETWORKS[name]
    network, batch = zoo.network(name), data()
    with without_fusion():
        predictions, losses = results(make, network, batch)
    with IPUStrategy().scope():
        ours, our_losses = results(make, network, batch)
    for found, expected in zip(ours, predictions, strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-5)
    assert our_losses[0] != our_losses[1]
    if name not in NOISY:
        np.testing.assert_allclose(our_losses, losses, rtol=2e-3)


def test_a_network_predicts_probabilities():
    make, data = tiny.NETWORKS["resnet50"]
    (images, _), model = data(), make()
    probabilities = model(images).numpy()
    assert probabilities.shape == (tiny.BATCH, 4)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
