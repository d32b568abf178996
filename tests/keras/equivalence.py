"""Training with accumulation and replicas, and the big-batch training of stock Keras it equals."""

import keras
import numpy as np
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy
from tests.keras.small_models import CLASSES, FEATURES

BATCH = 4
UPDATES = 3


def strategy_of(ipus):
    """Returns a strategy on so many small IPUs."""
    cfg = IPUConfig()
    cfg.auto_select_ipus = ipus
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.configure_ipu_system()
    return IPUStrategy()


def samples(count, seed=11):
    """Returns features and class labels."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(count, FEATURES)).astype("float32")
    return x, random.integers(0, CLASSES, count).astype("int32")


def batches(data, size):
    """Returns a dataset of whole batches, in order."""
    return tf.data.Dataset.from_tensor_slices(data).batch(size, drop_remainder=True)


class ScaledLoss(keras.losses.SparseCategoricalCrossentropy):
    """The loss of the models, times a factor."""

    def __init__(self, factor):
        super().__init__(from_logits=True)
        self.factor = factor

    def call(self, y_true, y_pred):
        return super().call(y_true, y_pred) * self.factor


def check_weights(ours, stock, rtol=1e-4):
    """Checks that weights agree relative to the largest of each."""
    for our_weight, stock_weight in zip(ours.get_weights(), stock.get_weights(), strict=True):
        scale = np.abs(stock_weight).max()
        np.testing.assert_allclose(our_weight / scale, stock_weight / scale, rtol=0, atol=rtol)
