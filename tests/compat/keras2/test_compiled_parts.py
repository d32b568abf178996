"""Steps of scripts that call the loss and the metrics of `compile`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy

X = np.random.default_rng(0).random((8, 3), dtype=np.float32)
Y = X.sum(axis=1, keepdims=True)
WEIGHTS = np.linspace(0, 2, 8, dtype=np.float32)


class OwnSteps(keras.Model):
    """A model whose steps are those of Keras 2's guides."""

    def train_step(self, data):
        x, y, weights = data
        with tf.GradientTape() as tape:
            outputs = self(x, training=True)
            loss = self.compiled_loss(
                y, outputs, sample_weight=weights, regularization_losses=self.losses
            )
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.compiled_metrics.update_state(y, outputs, sample_weight=weights)
        return {metric.name: metric.result() for metric in self.metrics}

    def test_step(self, data):
        x, y = data
        outputs = self(x, training=False)
        self.compiled_loss(y, outputs, regularization_losses=self.losses)
        self.compiled_metrics.update_state(y, outputs)
        return {metric.name: metric.result() for metric in self.metrics}


def trained(kind):
    keras.utils.set_random_seed(0)
    entry = keras.Input((3,))
    model = kind(entry, keras.layers.Dense(1, kernel_regularizer="l2")(entry))
    model.compile("sgd", "mse", metrics=["mae"], weighted_metrics=["mse"])
    options = {"batch_size": 4, "verbose": 0}
    history = model.fit(X, Y, sample_weight=WEIGHTS, epochs=2, shuffle=False, **options).history
    return history, model.evaluate(X, Y, return_dict=True, **options)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")
@pytest.mark.parametrize("on_ipu", [False, True])
def test_steps_of_a_script_give_what_the_steps_of_keras_give(keras_2, notices, on_ipu):
    strategy = (
        IPUStrategy(enable_keras_extensions=False) if on_ipu else tf.distribute.get_strategy()
    )
    with strategy.scope():
        for own, stock in zip(trained(OwnSteps), trained(keras.Model), strict=True):
            assert {*own} == {*stock}
            for name, values in stock.items():
                np.testing.assert_allclose(own[name], values, rtol=1e-5, err_msg=name)
    assert any("`self.compiled_loss" in notice for notice in notices())


def test_the_loss_has_the_terms_that_a_call_gives(keras_2):
    layer = keras.layers.Dense(1, kernel_regularizer="l2")
    model = keras.Sequential([keras.Input((3,)), layer])
    model.compile("sgd", "mse", metrics=["mae"])
    zeros, ones = tf.zeros((2, 1)), tf.ones((2, 1))
    assert float(model.compiled_loss(ones, zeros)) == 1
    assert float(model.compiled_loss(ones, zeros, regularization_losses=[2.0, 3.0])) == 6
    assert float(model.compiled_loss.metrics[0].result()) == 3.5
    model.compiled_metrics.update_state(ones, 3 * ones)
    (absolute,) = model.compiled_metrics.metrics
    assert float(absolute.result()) == 2
    assert float(model.metrics[0].result()) == 3.5  # Outputs are no values of the loss.
    model.compiled_metrics.reset_state()
    assert float(absolute.result()) == 0


def test_a_script_reads_and_sets_what_is_compiled(keras_2):
    x = keras.Input((3,))
    model = keras.Model(x, [keras.layers.Dense(1, name="a")(x), keras.layers.Dense(1, name="b")(x)])
    assert model.compiled_loss is None
    assert model.compiled_metrics is None
    model.compile(
        "sgd",
        ["mse", "mae"],
        loss_weights=[1.0, 0.5],
        weighted_metrics={"a": ["mae"]},
        run_eagerly=True,
    )
    loss, metrics = model.compiled_loss, model.compiled_metrics
    assert (loss._output_names, loss._losses, loss._loss_weights) == (
        ["a", "b"],
        ["mse", "mae"],
        [1.0, 0.5],
    )
    mean = keras.metrics.Mean("loss", dtype="float32")
    loss._loss_metric = mean
    loss._per_output_metrics = [keras.metrics.Mean("a_loss"), keras.metrics.Mean("b_loss")]
    own = keras.metrics.MeanMetricWrapper(keras.losses.mean_squared_error, name="own")
    metrics._weighted_metrics = {"a": [own]}
    results = model.evaluate(X, [Y, Y], batch_size=4, verbose=0)
    first, second = model(X)
    expected = [np.mean((first - Y) ** 2), np.mean(np.abs(second - Y))]
    np.testing.assert_allclose(
        results, [expected[0] + 0.5 * expected[1], *expected, expected[0]], rtol=1e-5
    )
    assert float(mean.result()) == pytest.approx(results[0])
    assert [metric.name for metric in loss.metrics] == ["loss", "a_loss", "b_loss"]
    assert [metric._name for metric in metrics.metrics] == ["own"]
    assert [type(part).__name__ for part in loss._losses] == ["LossFunctionWrapper"] * 2
    with pytest.raises(ValueError, match="cannot be replaced: .* it has run a step. Give them to"):
        metrics._metrics = ["mae"]
