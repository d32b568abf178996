"""`--max-steps` for models that no IPU runs."""

import logging

import keras
import numpy as np
import pytest

from ipu_tf import IPUStrategy
from ipu_tf.compat.step_limit import limiting_stock_models

X = np.ones((16, 4), dtype=np.float32)
Y = X[:, :1]


class Counter(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.trained = self.tested = 0

    def on_train_batch_end(self, batch, logs=None):
        self.trained += 1

    def on_test_batch_end(self, batch, logs=None):
        self.tested += 1


def dense(**options):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)], name="tried")
    model.compile("sgd", "mse", **options)
    return model


def test_loops_of_stock_models_end_at_the_limit(caplog):
    caplog.set_level(logging.WARNING)
    model, counter = dense(), Counter()
    with limiting_stock_models(3):
        history = model.fit(
            X, Y, 2, epochs=3, validation_data=(X, Y), verbose=0, callbacks=[counter]
        )
        assert len(model.predict(X, batch_size=2, verbose=0)) == 6
        model.evaluate(X, Y, 2, 0, callbacks=[counter])
    assert (counter.trained, counter.tested, len(history.epoch)) == (3, 3 + 3, 1)
    for method in ("fit", "predict", "evaluate"):
        assert f"`{method}` of model 'tried' runs at most 3 steps (--max-steps 3)." in caplog.text
    assert len(model.predict(X, batch_size=2, verbose=0)) == 16


@pytest.mark.slow
def test_the_limit_counts_the_steps_of_all_epochs():
    model, counter = dense(), Counter()
    with limiting_stock_models(3):
        history = model.fit(X, Y, 8, epochs=3, verbose=0, callbacks=counter)
    assert (counter.trained, len(history.epoch)) == (3, 2)


@pytest.mark.slow
def test_executions_have_at_most_the_steps_of_the_limit():
    model = dense(steps_per_execution=8)
    with limiting_stock_models(3):
        model.fit(X, Y, batch_size=2, verbose=0)
    assert int(model.optimizer.iterations) == 3
    assert model.steps_per_execution == 8


@pytest.mark.slow
def test_models_of_the_ipu_are_left_alone():
    with IPUStrategy().scope(), limiting_stock_models(1):
        model = dense()
        model.fit(X, Y, batch_size=4, verbose=0)
        assert int(model.optimizer.iterations) == 4
