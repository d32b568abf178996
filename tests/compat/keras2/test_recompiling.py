"""Models that are compiled again, or evaluated without a loss, and callbacks."""

import keras
import numpy as np
import pytest

from ipu_tf import IPUStrategy

X = np.random.default_rng(1).random((8, 3), dtype=np.float32)
Y = X.sum(axis=1, keepdims=True)


def compiled(loss="mse"):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1), loss, metrics=["mae"], steps_per_execution=2)
    return model


def test_the_last_compile_says_what_is_computed(keras_2, notices):
    with IPUStrategy().scope():
        model = compiled()
        error = model.evaluate(X, Y, batch_size=4, verbose=0)[1]
        model.compile(metrics=[keras.metrics.MeanAbsoluteError("error")], steps_per_execution=2)
        logs = model.evaluate(X, Y, batch_size=4, verbose=0, return_dict=True)
    assert logs["loss"] == 0.0
    assert {*logs} == {"loss", "error"}
    np.testing.assert_allclose(logs["error"], error)
    notices.once("`compile` again", "`evaluate` of a model without a loss")


def test_a_model_without_a_loss_is_not_trained(keras_2):
    model = compiled(loss=None)
    with pytest.raises(ValueError, match="No loss to compute"):
        model.fit(X, Y, verbose=0)


@pytest.mark.slow
def test_scripts_set_the_model_of_a_callback(keras_2, notices):
    class Watching(keras.callbacks.Callback):
        def __init__(self, model):
            self.model = model
            self.names = []

        def on_epoch_end(self, epoch, logs=None):
            self.names.append(self.model.name)

    model = compiled()
    watching = Watching(model)
    assert watching.model is model
    model.fit(X, Y, batch_size=4, verbose=0, callbacks=[watching])
    assert watching.names == [model.name]
    notices.once("`callback.model = model`")


def test_methods_of_callbacks_get_the_logs_by_position(keras_2, notices):
    class Watching(keras.callbacks.Callback):
        def __init__(self):
            self.losses = []

        def on_train_batch_end(self, _, found):
            self.losses.append(found["loss"])

    watching = Watching()
    history = compiled().fit(X, Y, batch_size=8, verbose=0, callbacks=[watching])
    assert watching.losses == history.history["loss"]
    notices.once("`def on_train_batch_end(self, batch, _)`")
