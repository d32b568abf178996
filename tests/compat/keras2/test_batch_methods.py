"""Metrics over several calls of `train_on_batch` and `test_on_batch`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy

X = np.random.default_rng(0).random((8, 3), dtype=np.float32)
Y = X.sum(axis=1, keepdims=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")
@pytest.mark.parametrize("on_ipu", [False, True])
@pytest.mark.parametrize("method", ["train_on_batch", "test_on_batch"])
def test_metrics_count_several_batches(keras_2, notices, on_ipu, method):
    strategy = IPUStrategy() if on_ipu else tf.distribute.get_strategy()
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.0), "mse", metrics=["mae"])
        on_batch = getattr(model, method)
        alone = [on_batch(X[rows], Y[rows]) for rows in (slice(4), slice(4, 8))]
        assert not notices()
        both = on_batch(X[:4], Y[:4], reset_metrics=False)  # The second batch is counted still.
        again = on_batch(X[:4], Y[:4], reset_metrics=True)
    np.testing.assert_allclose(both, np.mean(alone, axis=0), rtol=1e-5)
    np.testing.assert_allclose(again, alone[0], rtol=1e-5)
    notices.once("reset_metrics=False")
