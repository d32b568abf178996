"""Custom objects that scripts of Keras 2 name by strings."""

import keras
import numpy as np
import pytest

X = np.random.default_rng(2).random((4, 3), dtype=np.float32)


def doubled(x):
    return 2 * x


def distance(y_true, y_pred):
    return keras.ops.mean(keras.ops.abs(y_true - y_pred), axis=-1)


@pytest.fixture
def registered():
    """The custom objects of all threads, as they were before once the test ends."""
    objects = keras.utils.get_custom_objects()
    before = dict(objects)
    yield objects
    objects.clear()
    objects.update(before)


def test_strings_name_custom_objects(keras_2, notices, registered):
    registered.update(
        {"Doubled": keras.layers.Activation(doubled), "distance": distance, "whole": np.round}
    )
    layer = keras.layers.Dense(2, activation="Doubled", bias_constraint="whole")
    model = keras.Sequential([layer])
    np.testing.assert_allclose(model(X), 2 * (X @ layer.kernel.numpy()), rtol=1e-6)
    model.compile("sgd", loss="distance", metrics=["distance"])
    logs = model.evaluate(X, X[:, :2], verbose=0, return_dict=True)
    expected = np.mean(np.abs(X[:, :2] - model.predict(X, verbose=0)))
    np.testing.assert_allclose([logs["loss"], logs["distance"]], expected, rtol=1e-5)
    notices.once("get_custom_objects")


def test_strings_find_what_a_scope_holds(keras_2):
    with keras.utils.custom_object_scope({"doubled": doubled}):
        assert keras.activations.get("doubled") is doubled
    with pytest.raises(ValueError, match="Could not interpret activation function"):
        keras.activations.get("doubled")


def test_regularizers_are_found_by_name(keras_2, registered):
    registered["small"] = keras.regularizers.L2
    assert isinstance(keras.regularizers.get("small"), keras.regularizers.L2)
    assert keras.activations.get("relu") is keras.activations.relu
