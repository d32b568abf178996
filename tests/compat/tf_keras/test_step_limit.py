"""`--max-steps` for models of tf_keras that no IPU runs."""

import logging

import numpy as np
import pytest

from ipu_tf.compat.tf_keras.step_limit import limiting_models_of_tf_keras
from tests.keras.tf_keras_training import strategy_of

tf_keras = pytest.importorskip("tf_keras")

X = np.ones((16, 4), dtype=np.float32)
Y = X[:, :1]


class Counter(tf_keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.trained = self.tested = 0

    def on_train_batch_end(self, batch, logs=None):
        self.trained = batch + 1

    def on_test_batch_end(self, batch, logs=None):
        self.tested += 1


def dense(**options):
    model = tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(4,))], name="tried")
    model.compile("sgd", "mse", **options)
    return model


def test_loops_of_stock_models_end_at_the_limit(caplog):
    caplog.set_level(logging.WARNING)
    model, counter = dense(), Counter()
    with limiting_models_of_tf_keras(3):
        history = model.fit(
            X, Y, 2, epochs=3, validation_data=(X, Y), verbose=0, callbacks=[counter]
        )
        assert len(model.predict(X, batch_size=2, verbose=0)) == 6
        model.evaluate(X, Y, 2, 0, callbacks=[counter])
        assert int(model.optimizer.iterations) == 3
        model.fit(X, Y, 8, epochs=3, verbose=0)
    assert (counter.trained, counter.tested, len(history.epoch)) == (3, 3 + 3, 1)
    assert int(model.optimizer.iterations) == 3 + 3
    for method in ("fit", "predict", "evaluate"):
        assert f"`{method}` of model 'tried' runs at most 3 steps (--max-steps 3)." in caplog.text
    assert len(model.predict(X, batch_size=2, verbose=0)) == 16


@pytest.mark.slow
def test_executions_have_at_most_the_steps_of_the_limit():
    model = dense(steps_per_execution=8)
    with limiting_models_of_tf_keras(3):
        model.fit(X, Y, batch_size=2, verbose=0)
    assert int(model.optimizer.iterations) == 3
    assert int(model.steps_per_execution) == 8


def test_a_model_that_is_not_compiled_predicts_few_batches():
    model = tf_keras.Sequential([tf_keras.layers.Dense(1)])
    with limiting_models_of_tf_keras(3):
        assert len(model.predict(X, batch_size=2, verbose=0)) == 6


@pytest.mark.slow
def test_models_of_the_ipu_are_left_alone():
    with strategy_of().scope(), limiting_models_of_tf_keras(1):
        model = dense()
        model.fit(X, Y, batch_size=4, verbose=0)
        assert int(model.optimizer.iterations) == 4
