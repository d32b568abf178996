"""`LossScaleOptimizer` as Keras 2 had it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy

X = np.random.default_rng(1).random((8, 4), dtype=np.float32)
Y = X.sum(axis=1, keepdims=True)


def model_of(optimizer):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, kernel_initializer="zeros")])
    model.compile(optimizer, "mse")
    return model


def scaled(*args, **kwargs):
    sgd = keras.optimizers.SGD(0.125)
    return keras.mixed_precision.LossScaleOptimizer(sgd, *args, **kwargs)


def assert_same(model, other):
    for own, of_other in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(own, of_other, rtol=1e-6)


@pytest.mark.slow
def test_a_fixed_scale_stays(keras_2, notices):
    with IPUStrategy().scope():
        model = model_of(scaled(dynamic=False, initial_scale=128))
        stock = model_of(keras.optimizers.SGD(0.125))
        for one in (model, stock):
            one.fit(X, Y, batch_size=4, shuffle=False, verbose=0)
        assert_same(model, stock)
    notices.once("`LossScaleOptimizer(optimizer, dynamic=False")
    optimizer = model.optimizer
    assert (optimizer.dynamic, float(optimizer.loss_scale)) == (False, 128)
    copy = type(optimizer).from_config(optimizer.get_config())
    assert (copy.dynamic, copy.initial_scale) == (False, 128)


def test_a_fixed_scale_skips_no_step(keras_2):
    variable = tf.Variable(1.0)
    optimizer = scaled(False, 2)
    optimizer.apply_gradients([(tf.constant(np.inf), variable)])
    assert np.isneginf(variable)


@pytest.mark.parametrize(
    "scale", [{}, pytest.param({"dynamic": False, "initial_scale": 64}, marks=pytest.mark.slow)]
)
@pytest.mark.slow
def test_a_script_scales_and_unscales(keras_2, scale):
    with IPUStrategy().scope() as _:
        strategy = tf.distribute.get_strategy()
        model, stock = model_of(scaled(**scale)), model_of(keras.optimizers.SGD(0.125))
        optimizer = model.optimizer

        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
                whole = optimizer.get_scaled_loss(loss)
            gradients = tape.gradient(whole, model.trainable_variables)
            gradients = optimizer.get_unscaled_gradients(gradients)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return whole / loss

        optimizer.build(model.trainable_variables)
        factor = strategy.run(step, args=(tf.constant(X), tf.constant(Y)))
        assert float(factor) == pytest.approx(scale.get("initial_scale", 2**15))
        # The loop's own step unscales.
        model.fit(X, Y, batch_size=8, verbose=0)
        stock.fit(X, Y, batch_size=8, epochs=2, verbose=0)
        assert_same(model, stock)


def test_scales_of_experimental_are_read(keras_2):
    make = keras.mixed_precision.experimental.LossScaleOptimizer
    fixed, changing = make(keras.optimizers.SGD(), 8), make(keras.optimizers.SGD(), "dynamic")
    assert (fixed.dynamic, float(fixed.loss_scale)) == (False, 8)
    assert (changing.dynamic, float(changing.loss_scale)) == (True, 2**15)


def test_losses_and_sparse_gradients_are_scaled(keras_2):
    optimizer = scaled(dynamic=False, initial_scale=4)
    assert float(optimizer.get_scaled_loss(lambda: tf.constant(2.0))()) == 8
    rows = tf.IndexedSlices(tf.ones((1, 2)), tf.constant([1]), tf.constant([3, 2]))
    none, unscaled = optimizer.get_unscaled_gradients([None, rows])
    assert none is None
    np.testing.assert_array_equal(unscaled.values, [[0.25, 0.25]])


def test_a_fixed_scale_is_needed(keras_2):
    with pytest.raises(ValueError, match="`dynamic=False` has an `initial_scale`.*=None"):
        scaled(dynamic=False)
    with pytest.raises(ValueError, match="no `dynamic_growth_steps`.*dynamic_growth_steps=3"):
        scaled(dynamic=False, initial_scale=1, dynamic_growth_steps=3)
