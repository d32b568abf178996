"""Control flow of Python over tensors, and arguments of `call`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy

layers = keras.layers
X = np.ones((8, 4), dtype=np.float32)
Y = X[:, :1]


class Doubled(layers.Layer):
    """Doubles a positive input, then adds 3."""

    def call(self, x, training):
        if tf.reduce_mean(x) > 0:
            x = 2 * x
        for _ in tf.range(3 if training else 4):
            x = x + 1
        return x


def halved(x):
    if tf.reduce_mean(x) > 0:
        x = 0.5 * x
    return x


def huber(y_true, y_pred):
    error = tf.reduce_mean(tf.abs(y_true - y_pred))
    if error > 1:
        return error
    return 0.5 * error**2


class Steps(keras.metrics.Metric):
    """Counts the steps with positive targets."""

    def __init__(self):
        super().__init__(name="steps")
        self.count = self.add_weight(name="count", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        if tf.reduce_mean(y_true) > 0:
            self.count.assign_add(1.0)

    def result(self):
        return self.count


class Warmup(keras.optimizers.schedules.LearningRateSchedule):
    def __call__(self, step):
        if step < 1:
            return 0.0
        return 0.5


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(1, kernel_initializer="zeros")

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x) - y))
            if loss > 0.5:
                loss = 2 * loss
        weights = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return {"own": loss}


@pytest.mark.parametrize("on_ipu", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_layers_losses_metrics_and_schedules_are_converted(keras_2, on_ipu):
    strategy = IPUStrategy() if on_ipu else tf.distribute.get_strategy()
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((4,)),
                Doubled(),
                layers.Lambda(halved),
                layers.Dense(1, kernel_initializer="zeros"),
            ]
        )
        model.compile(keras.optimizers.SGD(Warmup()), huber, metrics=[Steps()])
        np.testing.assert_array_equal(model.layers[0](X, True), np.full_like(X, 5))
        history = model.fit(X, Y, batch_size=4, shuffle=False, verbose=0).history
        assert history == {"loss": [0.5], "steps": [2]}
        # Two steps: without a learning rate, then with 0.5 times the gradient of -5 / 2 and -1.
        kernel, bias = model.get_weights()
        np.testing.assert_allclose(kernel, np.full((4, 1), 1.25), rtol=1e-6)
        np.testing.assert_allclose(bias, [0.5], rtol=1e-6)
        assert model.predict(X, batch_size=8, verbose=0)[0] == pytest.approx(4 * 3 * 1.25 + 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("on_ipu", [True, False])
def test_steps_of_a_model_are_converted(keras_2, on_ipu):
    strategy = IPUStrategy() if on_ipu else tf.distribute.get_strategy()
    with strategy.scope():
        model = Own()
        model.compile(keras.optimizers.SGD(0.0))
        assert model.fit(X, Y, batch_size=8, verbose=0).history == {"own": [2.0]}


def test_functions_are_themselves_in_configurations(keras_2):
    layer = layers.Lambda(halved)
    layer(keras.Input((4,)))
    loss = keras.losses.get(huber)
    assert layer.function is halved
    assert loss is huber


def test_arguments_of_call_have_defaults(keras_2, notices):
    class Masked(layers.Layer):
        def call(self, x, training, mask):
            return x + 1 if training else x

    layer = Masked()
    np.testing.assert_array_equal(layer(X), X)
    np.testing.assert_array_equal(layer(X, True, None), X + 1)
    np.testing.assert_array_equal(layer(X, training=True), X + 1)
    notices.once("`call(self, x, training)` without a default")
