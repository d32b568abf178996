"""Shapes that layers compute."""

import copy

import keras
import pytest
import tensorflow as tf

layers = keras.layers


def test_shapes_of_layers_have_the_methods_of_a_tensor_shape(keras_2):
    layer = layers.Dense(3)
    shape = layer.compute_output_shape(tf.TensorShape([None, 2]))
    assert (shape, shape.as_list(), shape.rank) == ((None, 3), [None, 3], 2)
    states = layers.LSTM(4, return_state=True).compute_output_shape((1, 2, 3))
    assert [state.as_list() for state in states] == [[1, 4]] * 3


def test_a_copy_of_a_layer_computes_its_own_shapes(keras_2):
    layer = layers.Dense(3)
    other = copy.deepcopy(layer)
    other.units = 5
    assert other.compute_output_shape((1, 2)).as_list() == [1, 5]
    assert layer.compute_output_shape((1, 2)).as_list() == [1, 3]


class Around(layers.Wrapper):
    """A layer around another one, as normalisations of weights are written."""

    def build(self, input_shape):
        self.layer.build(input_shape)
        self.built = True

    def call(self, x):
        return self.layer(x)

    def compute_output_shape(self, input_shape):
        return tf.TensorShape(self.layer.compute_output_shape(input_shape).as_list())


@pytest.mark.parametrize("inner", [layers.Dense, layers.LSTM])
def test_wrappers_tell_the_shape_of_the_layer_inside(keras_2, inner):
    size = (2, 4) if inner is layers.LSTM else (4,)
    assert Around(inner(3))(keras.Input(size)).shape == (None, 3)
