"""Names of layers with a `/`."""

import keras


def test_slashes_in_names_become_underscores(keras_2, notices):
    inputs = keras.Input((3,))
    outputs = keras.layers.Dense(2, name="head/dense")(inputs)
    model = keras.Model(inputs, outputs, name="a/model")
    assert (model.name, model.layers[1].name) == ("a_model", "head_dense")
    assert model.get_layer("head/dense") is model.layers[1]
    assert model.get_layer(index=0) is model.layers[0]
    notices.once("a `/` in the name of a layer")
