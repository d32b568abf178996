"""Files that Keras 2 itself wrote.

`files_of_keras_2.zip` was written by Keras 2: the models of `graph` and `Own` below, trained for
two epochs by its Adam, with their outputs before and after one more epoch of one batch. The graphs
of TensorFlow, `saved_model.pb`, are empty: nothing here reads them. `files_of_keras_2_11.zip` was
written with the optimizers that Keras 2.11 brought.
"""

import shutil
import zipfile
from pathlib import Path

import keras
import numpy as np
import pytest

from ipu_tf.compat.keras2.metadata_file import metadata_of
from ipu_tf.internals.tensorflow import SavedModelProto

FILES = Path(__file__).with_name("files_of_keras_2.zip")
FILES_OF_2_11 = FILES.with_stem("files_of_keras_2_11")
layers = keras.layers


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.first = layers.Dense(3, activation="relu")
        self.rest = [layers.Dense(2), layers.Dense(1)]

    def call(self, x):
        x = self.first(x)
        for layer in self.rest:
            x = layer(x)
        return x

    def get_config(self):
        return {}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls()


def slow(name):
    return pytest.param(name, marks=pytest.mark.slow)


def graph():
    x = keras.Input((4,), name="x")
    h = layers.Bidirectional(layers.LSTM(3))(layers.Reshape((4, 1))(x))
    h = layers.BatchNormalization()(h)
    merged = layers.concatenate([layers.Dense(2, name="a")(h), h])
    return keras.Model(x, layers.Dense(1)(merged))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keras2")
    for path in (FILES, FILES_OF_2_11):
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
    return folder


def expected(files, name):
    with np.load(files / f"{name}.npz") as data:
        return dict(data)


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["graph", "own", "graph.h5"])
def test_models_of_keras_2_go_on_where_they_ended(keras_2, files, name):
    model = keras.models.load_model(str(files / name), custom_objects={"Own": Own})
    data = expected(files, name.partition(".")[0])
    np.testing.assert_allclose(model(data["x"], training=False), data["before"], atol=1e-6)
    assert int(model.optimizer.iterations) == 2
    history = model.fit(data["x"], data["y"], batch_size=8, verbose=0).history
    assert set(history) == {"loss", "mae"}
    np.testing.assert_allclose(model(data["x"], training=False), data["after"], atol=1e-6)


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")
@pytest.mark.parametrize(
    "name",
    [
        "rmsprop.h5",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("rmsprop", "adam", "adam.h5")),
    ],
)
def test_optimizers_of_keras_2_11_go_on_where_they_ended(keras_2, files, name):
    model = keras.models.load_model(str(files / name))
    data = expected(files, name.partition(".")[0])
    model.fit(data["x"], data["y"], batch_size=4, shuffle=False, verbose=0)
    np.testing.assert_allclose(model(data["x"]), data["after"], atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "make"), [("graph", graph), ("own", Own)])
@pytest.mark.parametrize("path", ["{0}", "{0}_weights/w", "{0}/variables/variables"])
def test_weights_of_keras_2_are_read(keras_2, notices, files, name, make, path):
    data = expected(files, name)
    model = make()
    model(data["x"])
    model.load_weights(str(files / path.format(name))).assert_consumed()
    np.testing.assert_allclose(model(data["x"], training=False), data["before"], atol=1e-6)
    notices.once("`model.load_weights(path)` of a checkpoint")


def test_weights_that_a_checkpoint_lacks_are_named(keras_2, files):
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3, name="other")])
    message = r"has no values of 2 of the 2 weights of model .*other/kernel.*\.h5"
    with pytest.raises(ValueError, match=message):
        model.load_weights(str(files / "own"))


def test_a_model_of_a_class_needs_the_class(keras_2, files):
    message = r"SavedModel of the class Own.*custom_objects=\{'Own': Own\}.*load_weights.*TFSMLayer"
    with pytest.raises(ValueError, match=message):
        keras.models.load_model(str(files / "own"))


def test_a_saved_model_of_another_library_is_refused(keras_2, tmp_path):
    saved = SavedModelProto()
    saved.meta_graphs.add().object_graph_def.nodes.add().user_object.identifier = "trackable"
    (tmp_path / "saved_model.pb").write_bytes(saved.SerializeToString())
    with pytest.raises(ValueError, match="SavedModel that Keras did not write.*TFSMLayer"):
        keras.models.load_model(str(tmp_path))


def test_metadata_is_found_in_both_places(files, tmp_path):
    text = metadata_of(str(files / "own"))
    assert '"class_name": "Own"' in text
    saved = SavedModelProto()
    node = saved.meta_graphs.add().object_graph_def.nodes.add()
    node.user_object.metadata = text
    (tmp_path / "saved_model.pb").write_bytes(saved.SerializeToString())
    assert metadata_of(str(tmp_path)) == text


def test_metadata_of_another_kind_is_refused(files, tmp_path):
    shutil.copytree(files / "own", tmp_path / "own")
    (tmp_path / "own" / "keras_metadata.pb").write_bytes(b"\x0d\x01\x00\x00\x00")
    with pytest.raises(ValueError, match="field 1 is of type 5"):
        metadata_of(str(tmp_path / "own"))


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")
@pytest.mark.slow
def test_an_h5_file_keeps_loss_optimizer_and_its_state(keras_2, tmp_path):
    x = np.random.default_rng(1).random((8, 4), dtype=np.float32)
    y = x.sum(axis=1, keepdims=True)
    model = keras.Sequential([keras.Input((4,)), layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    model.fit(x, y, verbose=0)
    model.save(tmp_path / "model", save_format="h5")
    loaded = keras.models.load_model(tmp_path / "model")
    for one in (model, loaded):
        one.fit(x, y, shuffle=False, verbose=0)
    for own, other in zip(model.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-6)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(again.optimizer, keras.optimizers.Adam)


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")
def test_state_of_another_optimizer_is_refused(keras_2, tmp_path):
    import h5py

    model = keras.Sequential([keras.Input((4,)), layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.01), "mse")
    model.optimizer.build(model.trainable_variables)
    model.save(tmp_path / "model.h5")
    with h5py.File(tmp_path / "model.h5", "a") as file:
        group = file["optimizer_weights"]
        group.attrs["weight_names"] = group.attrs["weight_names"][:3]
    with pytest.raises(ValueError, match="3 variables of optimizer 'adam.*compile=False"):
        keras.models.load_model(tmp_path / "model.h5")


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")
def test_an_h5_file_keeps_the_arguments_of_a_loss(keras_2, tmp_path):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", keras.losses.Huber(reduction="sum", name="mse"))
    x, y = np.ones((4, 4), "float32"), np.zeros((4, 1), "float32")
    expected = model.evaluate(x, y, verbose=0)
    model.save(tmp_path / "model.h5")
    loaded = keras.models.load_model(tmp_path / "model.h5")
    np.testing.assert_array_equal(loaded.evaluate(x, y, verbose=0), expected)
    assert (loaded.loss.reduction, loaded.loss.name) == ("sum", "mse")
