"""Models and weights are written as scripts for Keras 2 ask."""

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy

# Keras' writers convert variables in a way that NumPy has replaced.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")

X = np.random.default_rng(1).random((8, 4), dtype=np.float32)
Y = X.sum(axis=1, keepdims=True)


def made(optimizer="adam"):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(optimizer, "mse")
    return model


def fit(model):
    """Trains a model for two steps."""
    model.fit(X, Y, batch_size=4, shuffle=False, verbose=0)
    return model


def step(model):
    """Updates the weights of a model, without a program."""
    model.optimizer.apply([tf.ones_like(w.value) for w in model.weights], model.weights)
    return model


@pytest.fixture
def trained(keras_2):
    return step(step(made()))


def assert_equal_weights(found, expected):
    for a, b in zip(found.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_training_goes_on_from_a_directory(trained, notices, tmp_path):
    trained.save(tmp_path / "model")
    notices.once("`model.save(directory)`")
    loaded = keras.models.load_model(tmp_path / "model")
    assert_equal_weights(loaded, trained)
    assert_equal_weights(step(loaded), step(trained))
    assert int(loaded.optimizer.iterations) == 3


def test_a_directory_is_a_saved_model_of_tensorflow(trained, tmp_path):
    tf.keras.models.save_model(trained, str(tmp_path / "model"), save_format="tf")
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    np.testing.assert_allclose(loaded.serve(X), trained(X), rtol=1e-6)


@pytest.mark.slow
def test_a_directory_without_the_optimizer_is_an_uncompiled_model(trained, tmp_path):
    trained.save(tmp_path / "model", include_optimizer=False, save_traces=False)
    loaded = keras.models.load_model(tmp_path / "model")
    assert not loaded.compiled
    assert_equal_weights(loaded, trained)


@pytest.mark.slow
def test_a_directory_is_not_overwritten_unless_asked(trained, tmp_path):
    trained.save(tmp_path / "model")
    trained.save(tmp_path / "model")
    with pytest.raises(FileExistsError, match="exists, and `overwrite` is False"):
        trained.save(tmp_path / "model", overwrite=False)


@pytest.mark.parametrize("name", ["model", "model.h5"])
def test_an_h5_file_has_any_name(trained, tmp_path, notices, name):
    trained.save(str(tmp_path / name), save_format="h5")
    (tmp_path / name).rename(tmp_path / "renamed.h5")
    loaded = keras.models.load_model(tmp_path / "renamed.h5", compile=False)
    assert_equal_weights(loaded, trained)
    # Keras 3 takes the format beside its own ending.
    notices.once(*(["`model.save(directory)`"] if name == "model" else []))


def test_files_of_keras_3_are_written_as_ever(trained, notices, tmp_path):
    trained.save(tmp_path / "model.keras")
    trained.save_weights(tmp_path / "model.weights.h5")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    loaded.load_weights(tmp_path / "model.weights.h5")
    assert_equal_weights(loaded, trained)
    assert notices() == []


def test_a_checkpoint_sets_weights_and_state(trained, notices, tmp_path):
    path = str(tmp_path / "weights")
    trained.save_weights(path)
    assert tf.train.latest_checkpoint(tmp_path) == path
    other = step(made())
    other.load_weights(path).expect_partial()
    assert_equal_weights(other, trained)
    assert_equal_weights(step(other), step(trained))
    notices.once("`model.save_weights(path)`", "`model.load_weights(path)`")


def test_checkpoints_are_named_by_their_directory_without_a_warning(trained, caplog, tmp_path):
    (tmp_path / "first").mkdir()
    trained.save_weights(tmp_path / "first" / "weights")
    assert "deprecated" not in caplog.text
    moved = (tmp_path / "first").rename(tmp_path / "second")
    assert tf.train.latest_checkpoint(moved) == str(moved / "weights")


def test_an_h5_file_has_the_names_of_keras_2(trained, tmp_path):
    trained.save_weights(tmp_path / "weights.h5")
    with h5py.File(tmp_path / "weights.h5") as file:
        for layer in trained.layers:
            group = file[layer.name]
            names = list(group.attrs["weight_names"])
            assert names == [weight.name for weight in layer.weights]
            for name, weight in zip(names, layer.weights, strict=True):
                np.testing.assert_array_equal(group[name], weight)


def test_an_h5_file_sets_weights(trained, tmp_path):
    trained.save_weights(tmp_path / "weights.h5")
    other = made()
    other.load_weights(tmp_path / "weights.h5")
    assert_equal_weights(other, trained)


def test_a_checkpoint_of_another_model_is_refused(trained, tmp_path):
    path = str(tmp_path / "weights")
    trained.save_weights(path)
    with pytest.raises(ValueError, match="does not hold the weights of model"):
        keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)]).load_weights(path)
    with pytest.raises(ValueError, match="do not exist yet.*Call the model, or `build`"):
        keras.Sequential([keras.layers.Dense(1)]).save_weights(path)
    with pytest.raises(FileExistsError, match="`overwrite` is False"):
        trained.save_weights(path, overwrite=False)


def test_missing_files_are_not_found(keras_2, tmp_path):
    for name in ("model", "model.h5", "model.keras"):
        with pytest.raises(OSError, match=f"There is no model at '.*{name}'. Save one by"):
            keras.models.load_model(tmp_path / name)
    model = keras.Sequential()
    with pytest.raises(FileNotFoundError, match="There are no weights at '.*a.weights.h5'. Save"):
        model.load_weights(tmp_path / "a.weights.h5")
    with pytest.raises(tf.errors.NotFoundError, match="There are no weights at '.*/last'"):
        model.load_weights(tmp_path / "last")


def test_a_callback_leaves_out_arguments_that_keras_2_did_not_know(keras_2, notices, tmp_path):
    path = str(tmp_path / "last.weights.h5")
    callback = keras.callbacks.ModelCheckpoint(
        path, save_weights_only=True, period=2, model_name="a", verbose=1
    )
    assert (callback.filepath, callback.period, callback.verbose) == (path, 2, 1)
    assert callback._options is None
    assert any("arguments of any name" in notice for notice in notices())


@pytest.mark.slow
@pytest.mark.parametrize("only_weights", [True, False])
def test_a_callback_writes_any_path(keras_2, notices, tmp_path, only_weights):
    path = str(tmp_path / "epoch_{epoch}")
    callback = keras.callbacks.ModelCheckpoint(
        path, save_weights_only=only_weights, include_optimizer=False
    )
    model = made()
    model.fit(X, Y, batch_size=4, verbose=0, callbacks=[callback])
    if only_weights:
        other = made()
        other.load_weights(path.format(epoch=1))
    else:
        other = keras.models.load_model(path.format(epoch=1))
    assert_equal_weights(other, model)
    assert any("`ModelCheckpoint(path)` of any path" in notice for notice in notices())


@pytest.mark.slow
def test_models_of_the_ipu_are_written_to_directories(keras_2, tmp_path):
    with IPUStrategy().scope():
        model = made()
        model.set_gradient_accumulation_options(gradient_accumulation_steps_per_replica=2)
        model.compile("adam", "mse", steps_per_execution=2)
        fit(model)
        model.save(tmp_path / "model")
        kernel, bias = model.get_weights()
        loaded = keras.models.load_model(tmp_path / "model")
        assert_equal_weights(fit(loaded), fit(model))
    served = tf.saved_model.load(str(tmp_path / "model"))
    np.testing.assert_allclose(served.serve(X), X @ kernel + bias, rtol=1e-5)


def test_directories_are_refused_afterwards(tmp_path):
    with pytest.raises(ValueError, match="Invalid filepath extension"):
        made().save(tmp_path / "model")


def test_a_directory_lacks_an_optimizer_of_tensorflow(keras_2, tmp_path):
    model = made(tf.compat.v1.train.GradientDescentOptimizer(0.1))
    model.save(tmp_path / "model")
    loaded = keras.models.load_model(tmp_path / "model")
    assert_equal_weights(loaded, model)
    assert model.compiled
    assert not loaded.compiled


def test_a_model_that_was_built_and_never_called_is_written(keras_2, tmp_path):
    class Own(keras.Model):
        def __init__(self, **options):
            super().__init__(**options)
            self.layer = keras.layers.Dense(1)

        def call(self, inputs):
            return self.layer(inputs[0]) + self.layer(inputs[1])

    with IPUStrategy().scope():
        model = Own()
    model.build([(tf.constant(2), 4), (2, 4)])
    model.save(tmp_path / "model")
    loaded = keras.models.load_model(tmp_path / "model", custom_objects={"Own": Own})
    assert_equal_weights(loaded, model)
