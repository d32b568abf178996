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


def test_layers_of_eager_scripts_keep_the_dtype_of_keras(keras_2):
    assert layers.Dense(3)(tf.zeros((2, 4), tf.float16)).dtype == tf.float32
