"""What layers of scripts do in Keras 2 and Keras 3 refuses."""

import functools
import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy

X = np.random.default_rng(1).random((2, 3), dtype=np.float32)


def keeping(initializer):
    @functools.wraps(initializer)
    def init(self, *args, **kwargs):
        initializer(self, *args, **kwargs)
        self.kept = args

    return init


class Decorated(keras.layers.Layer):
    @keeping
    def __init__(self, units, **options):
        super().__init__(**options)
        self.dense = keras.layers.Dense(units)

    def call(self, x):
        return self.dense(x)


def test_an_initializer_may_be_decorated(keras_2, notices):
    layer = Decorated(2, name="own")
    assert (layer(X).shape, layer.kept, layer.name) == ((2, 2), (2,), "own")
    notices.once("a decorator around `Layer.__init__`")
    assert isinstance(keras.layers.Dense(2).get_config(), dict)
    assert notices() == []


def stating(function):
    """A decorator whose function states the signature of the one inside, with its object."""

    @functools.wraps(function)
    def call(self, *args, **kwargs):
        assert len(args) <= 3
        return function(self, *args, **kwargs)

    call.__signature__ = inspect.signature(function)
    return call


class Stating(keras.layers.Layer):
    @stating
    def call(self, x, scale=2.0, training=False):
        return scale * x


def test_a_call_may_state_its_signature(keras_2):
    np.testing.assert_allclose(Stating()(X, training=None), 2 * X)


class Masked(keras.layers.Layer):
    def call(self, x, mask, scale, training):
        return scale * (x if mask is None else x * mask)


def test_a_required_argument_may_follow_the_mask(keras_2):
    np.testing.assert_allclose(Masked()(X, None, 2.0), 2 * X)
    np.testing.assert_allclose(Masked()(X, np.zeros((2, 3), np.float32), scale=2.0), 0 * X)


def test_no_steps_per_execution_are_one(keras_2):
    with IPUStrategy().scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", steps_per_execution=None, run_eagerly=None)
        assert model.steps_per_execution == 1


def test_a_built_layer_gets_further_layers(keras_2):
    layer = Decorated(2)
    layer(X)
    layer.second = keras.layers.Dense(1)
    layer.second.build((2, 2))
    assert len(layer.trainable_weights) == 4


def test_a_script_switches_the_tracking_of_attributes_off(keras_2):
    layer = Decorated(2)
    layer(X)
    layer._self_setattr_tracking = False
    layer.beside = {"dense": keras.layers.Dense(1)}
    layer._self_setattr_tracking = True
    assert type(layer.beside) is dict
    layer.beside["dense"](X)
    assert len(layer.trainable_weights) == 2


def test_axes_of_a_layer_norm_are_counted_from_the_first(keras_2):
    norm = keras.layers.LayerNormalization(axis=[-2, -1])
    norm.build((2, 3, 4))
    assert norm.axis == [1, 2]
    x = tf.random.stateless_normal((2, 3, 4), [1, 2])
    np.testing.assert_allclose(tf.reduce_mean(norm(x), axis=[1, 2]), [0, 0], atol=1e-5)


class Two(keras.layers.Layer):
    def call(self, x, mask_of_tokens=None):
        return x if mask_of_tokens is None else x * mask_of_tokens


def test_the_shape_of_the_input_is_that_of_the_first_argument(keras_2):
    layer = Two()
    layer(mask_of_tokens=keras.Input((1,), batch_size=2), x=keras.Input((3,), batch_size=2))
    assert layer.input_shape == (2, 3)


def classes(y_true, y_pred):
    assert y_true.dtype == tf.int32
    return -tf.reduce_sum(tf.one_hot(y_true[:, 0], 3) * tf.math.log(y_pred), axis=-1)


class Classes(keras.losses.Loss):
    def call(self, y_true, y_pred):
        return classes(y_true, y_pred)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("loss", [classes, Classes()])
def test_a_loss_of_a_script_gets_integers(keras_2, notices, loss):
    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Softmax()(inputs))
    model.compile(loss=loss)
    y = np.array([[0], [2]], np.int32)
    expected = keras.losses.SparseCategoricalCrossentropy()(y, model(X))
    np.testing.assert_allclose(model.evaluate(X, y, verbose=0), expected, rtol=1e-6)
    notices.once("integer targets")


def test_classes_and_functions_of_keras_2_are_found(keras_2):
    from keras.layers.core import TFOpLambda
    from keras.losses import LossFunctionWrapper
    from keras.utils import tf_inspect

    inputs = keras.Input((3,))
    model = keras.Model(inputs, tf.reduce_sum(inputs))
    assert type(model.layers[1]) is TFOpLambda
    assert issubclass(keras.losses.MeanSquaredError, LossFunctionWrapper)
    assert tf_inspect.getfullargspec(classes).args == ["y_true", "y_pred"]
