"""Layers in graphs of TensorFlow 1 have the dtype of their first input."""

import keras
import pytest
import tensorflow as tf

from ipu_tf.compat.script import vendor_script

layers = keras.layers


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_layers_in_graphs_have_the_dtype_of_their_input(notices, dtype):
    with vendor_script(tf1=True):
        x = keras.Input((4,), dtype=dtype)
        single = layers.Dense(2, dtype="float32")
        model = keras.Model(x, [layers.ReLU()(layers.Dense(3)(x)), single(x)])
        inferred, given = model(tf.zeros((2, 4), dtype))
        assert (inferred.dtype, given.dtype) == (dtype, "float32")
        assert {weight.dtype for weight in model.layers[1].weights} == {dtype}
        norm = layers.BatchNormalization()
        assert norm(tf.zeros((2, 4), dtype)).dtype == dtype
        assert {weight.dtype for weight in norm.weights} == {"float32"}
        table = layers.Embedding(3, 2)
        assert table(tf.zeros((2,), tf.int32)).dtype == tf.float32
    assert any("layers without `dtype=`" in notice for notice in notices()) == (dtype == "float16")


class Subclassed(keras.Model):
    """A layer in a model that is a class."""

    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(2)

    def call(self, inputs):
        return self.dense(inputs)


@pytest.mark.slow
@pytest.mark.parametrize(
    "build", [Subclassed, lambda: keras.Sequential([layers.Dense(3), layers.ReLU()])]
)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_models_in_graphs_have_the_dtype_of_their_input(build, dtype):
    with vendor_script(tf1=True):
        model = build()
        assert model(tf.zeros((2, 4), dtype)).dtype == dtype
        assert {model.dtype, *(weight.dtype for weight in model.weights)} == {dtype}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_copies_of_layers_in_graphs_have_the_dtype_of_weights_or_of_their_input(dtype):
    with vendor_script(tf1=True):
        layer = layers.Dense(2)
        unbuilt = layers.Dense.from_config(layer.get_config())
        layer(tf.zeros((2, 4), dtype))
        built = layers.Dense.from_config(layer.get_config())
        assert unbuilt(tf.zeros((2, 4), dtype)).dtype == dtype
        assert built(tf.zeros((2, 4), "float16")).dtype == dtype
        pair = layers.Bidirectional(layers.GRU(3))  # It copies its layer.
        assert pair(tf.zeros((2, 5, 4), dtype)).dtype == dtype


@pytest.mark.slow
def test_files_of_models_in_graphs_name_policies_of_keras():
    with vendor_script(tf1=True):
        written = keras.Sequential([keras.Input((4,)), layers.Dense(3), layers.ReLU()]).to_json()
    model = keras.models.model_from_json(written)
    assert [layer.dtype_policy.name for layer in model.layers] == ["float32"] * 2


def test_layers_of_eager_scripts_keep_the_dtype_of_keras(keras_2):
    assert layers.Dense(3)(tf.zeros((2, 4), tf.float16)).dtype == tf.float32
