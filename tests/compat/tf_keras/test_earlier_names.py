"""Names of Keras 2 that 2.15 lacks."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.compat.tf_keras.context import keras_2_for_scripts

tf_keras = pytest.importorskip("tf_keras")
X = np.array([[0.2, 0.9], [0.6, 0.1]], "float32")


@pytest.fixture
def keras():
    with keras_2_for_scripts():
        import keras

        yield keras


@pytest.fixture
def precision():
    yield tf_keras.mixed_precision
    tf_keras.mixed_precision.set_global_policy("float32")


def test_policies_are_set_by_their_earlier_names(keras, precision):
    experimental = tf.keras.mixed_precision.experimental
    experimental.set_policy(experimental.Policy("mixed_float16", loss_scale="dynamic"))
    assert keras.layers.Dense(1).compute_dtype == "float16"
    assert experimental.global_policy().name == "mixed_float16"
    keras.mixed_precision.policy.set_policy("float32")
    assert precision.global_policy().name == "float32"


@pytest.mark.parametrize("scale", [128, None])
def test_a_policy_with_a_scale_that_compile_does_not_take_is_refused(keras, scale):
    policy = keras.mixed_precision.experimental.Policy
    message = r"for which `compile` takes 'dynamic'. Give `compile` LossScaleOptimizer"
    with pytest.raises(ValueError, match=message):
        policy("mixed_float16", loss_scale=scale)
    assert policy("float32", loss_scale=None).name == "float32"


@pytest.mark.parametrize(("scale", "dynamic", "found"), [("dynamic", True, 2**15), (8, False, 8)])
def test_losses_are_scaled_by_the_second_argument(keras, scale, dynamic, found):
    make = keras.mixed_precision.experimental.LossScaleOptimizer
    scaled = make(keras.optimizers.SGD(0.1), scale)
    assert scaled.dynamic is dynamic
    assert float(scaled.loss_scale) == found
    again = type(scaled).from_config(scaled.get_config())
    assert (again.dynamic, float(again.loss_scale)) == (dynamic, found)


def test_schedules_are_in_the_package_of_optimizers(keras):
    schedules = keras.optimizer_v2.learning_rate_schedule
    assert schedules.ExponentialDecay is keras.optimizers.schedules.ExponentialDecay


def test_a_sequential_predicts_classes(keras):
    model = keras.Sequential([keras.layers.Activation("linear", input_shape=(2,))])
    np.testing.assert_array_equal(model.predict_classes(X, 2), [1, 0])
    np.testing.assert_array_equal(model.predict_proba(X), X)
    one = keras.Sequential([keras.layers.Lambda(lambda x: x[:, :1], input_shape=(2,))])
    np.testing.assert_array_equal(one.predict_classes(X), [[0], [1]])


def test_stock_models_lack_these_names_afterwards():
    with keras_2_for_scripts():
        import keras  # noqa: F401
    assert not hasattr(tf_keras.Sequential, "predict_classes")


def test_modules_in_which_layers_were_written_have_the_names_of_all(keras):
    from keras.layers.convolutional import UpSampling2D, ZeroPadding2D
    from keras.layers.core import Dense, Flatten, TFOpLambda, tf_op_layer
    from keras.layers.noise import GaussianNoise
    from keras.layers.normalization import BatchNormalization
    from keras.layers.normalization.layer_normalization import LayerNormalization
    from keras.layers.pooling import MaxPooling2D

    found = (
        *(UpSampling2D, ZeroPadding2D, Dense, Flatten, GaussianNoise, BatchNormalization),
        *(LayerNormalization, MaxPooling2D),
    )
    assert all(one is getattr(tf_keras.layers, one.__name__) for one in found)
    assert TFOpLambda is tf_op_layer.TFOpLambda
