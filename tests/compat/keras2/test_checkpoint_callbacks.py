"""Training that continues from the files of `ModelCheckpoint`, and best files."""

import keras
import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")

X, Y = np.ones((4, 1), np.float32), np.zeros((4, 1), np.float32)


def compiled():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    model.compile("sgd", "mse")
    model.set_weights([np.ones((1, 1))])
    return model


@pytest.mark.slow
@pytest.mark.parametrize("weights_only", [True, False])
def test_training_continues_from_the_newest_file(keras_2, notices, tmp_path, weights_only):
    def checkpoint(**restart):
        path = str(tmp_path / "epoch{epoch:02d}.h5")
        return keras.callbacks.ModelCheckpoint(path, save_weights_only=weights_only, **restart)

    def fit(model, callback, epochs=1):
        model.fit(X, Y, epochs=epochs, callbacks=[callback], verbose=0)
        return model.get_weights()[0]

    two_epochs = fit(compiled(), checkpoint(), epochs=2)
    third = fit(compiled(), checkpoint(load_weights_on_restart=True), epochs=1)
    assert (third < two_epochs).all()
    np.testing.assert_array_less(two_epochs, fit(compiled(), checkpoint()))
    assert sum("load_weights_on_restart" in notice for notice in notices()) == 1


def test_training_begins_as_it_is_without_a_file(keras_2, tmp_path):
    callback = keras.callbacks.ModelCheckpoint(
        str(tmp_path / "none.h5"), load_weights_on_restart=True
    )
    callback.set_model(compiled())
    callback.on_train_begin()
    assert callback.model.get_weights()[0] == 1.0


@pytest.mark.parametrize(("monitor", "is_written"), [("loss", True), ("unknown", False)])
def test_no_file_is_the_best_without_its_metric(keras_2, tmp_path, monitor, is_written):
    path = tmp_path / "best.weights.h5"
    callback = keras.callbacks.ModelCheckpoint(
        str(path), monitor=monitor, save_best_only=True, save_weights_only=True, mode="min"
    )
    callback.set_model(compiled())
    callback.on_epoch_end(0, {"loss": 1.0})
    assert path.exists() == is_written
