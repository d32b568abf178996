"""The zoo's networks train on the IPU as in stock Keras."""

import keras
import numpy as np
import pytest

from ipu_tf import IPUStrategy, zoo
from tests.zoo import tiny


def losses(make, network, data):
    keras.utils.set_random_seed(3)
    model = make()
    model.compile(optimizer=keras.optimizers.SGD(0.01), loss=network.loss)
    inputs, targets = data
    return [float(model.train_on_batch(inputs, targets)) for _ in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("name", tiny.NETWORKS)
def test_networks_train_as_in_stock_keras(name):
    make, data = tiny.NETWORKS[name]
    network, batch = zoo.network(name), data()
    stock = losses(make, network, batch)
    with IPUStrategy().scope():
        ours = losses(make, network, batch)
    assert ours[0] != ours[1]
    np.testing.assert_allclose(ours, stock, rtol=2e-3)


def test_a_network_predicts_probabilities():
    make, data = tiny.NETWORKS["resnet50"]
    (images, _), model = data(), make()
    probabilities = model(images).numpy()
    assert probabilities.shape == (tiny.BATCH, 4)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
