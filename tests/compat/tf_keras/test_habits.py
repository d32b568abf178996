"""What Keras 2.6 did otherwise than 2.15."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.compat.tf_keras.context import keras_2_for_scripts

tf_keras = pytest.importorskip("tf_keras")


@pytest.fixture
def keras():
    with keras_2_for_scripts():
        import keras

        yield keras


@pytest.mark.filterwarnings("ignore:The `lr` argument is deprecated")
def test_optimizers_are_the_legacy_ones(keras):
    legacy = tf_keras.optimizers.legacy
    assert keras.optimizers.Adam is legacy.Adam
    assert keras.optimizers.Optimizer is legacy.Optimizer
    assert keras.optimizers.AdamW is tf_keras.optimizers.AdamW
    assert float(keras.optimizers.SGD(lr=0.5, decay=1e-3).lr) == 0.5
    assert isinstance(keras.optimizers.get("adam"), legacy.Adam)
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
    model.compile("SGD", "mse")
    assert isinstance(model.optimizer, legacy.SGD)
    assert tf_keras.optimizers.Adam is not legacy.Adam
    assert isinstance(tf_keras.optimizers.get("adamw"), tf_keras.optimizers.AdamW)


def test_loss_scaling_wraps_the_legacy_ones(keras):
    scaled = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(0.1))
    assert isinstance(scaled, keras.optimizers.Optimizer)


@pytest.mark.parametrize("by_position", [True, False])
def test_a_tensor_is_a_number_of_steps(keras, by_position):
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
    steps = tf.data.Dataset.range(6).cardinality()
    if by_position:
        model.compile("sgd", "mse", None, None, None, None, steps)
    else:
        model.compile("sgd", "mse", steps_per_execution=steps)
    x = np.ones((6, 2), "float32")
    assert len(model.fit(x, x[:, :1], batch_size=1, verbose=0).epoch) == 1


@pytest.mark.parametrize(("given", "trains"), [("name", True), (None, False), (1, True)])
def test_anything_says_whether_a_layer_trains(keras, given, trains):
    assert keras.layers.Layer(given).trainable is trains
    assert keras.layers.Layer(trainable=given).trainable is trains


def test_a_layer_takes_itself_for_true(keras):
    class Doubled(keras.layers.Layer):
        def __init__(self):
            super().__init__(self)

    assert Doubled().trainable is True
