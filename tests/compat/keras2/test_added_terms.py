"""Losses and metrics that layers and models add."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy

layers = keras.layers
X = np.random.default_rng(1).random((8, 4), dtype=np.float32)
Y = X.sum(axis=1, keepdims=True)
START = keras.initializers.Constant(0.5)


def weights_after(model, **data):
    model.fit(**data, batch_size=4, shuffle=False, verbose=0)
    return model.get_weights()


def dense(**options):
    return layers.Dense(1, kernel_initializer=START, **options)


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")
@pytest.mark.parametrize("on_ipu", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_functional_model_computes_losses_and_metrics(keras_2, notices, on_ipu, tmp_path):
    strategy = IPUStrategy() if on_ipu else tf.distribute.get_strategy()
    with strategy.scope():
        inputs, targets = keras.Input((4,)), keras.Input((1,))
        outputs = dense()(inputs)
        model = keras.Model([inputs, targets], outputs)
        model.add_loss(tf.reduce_mean(tf.square(outputs - targets)))
        model.add_metric(tf.reduce_sum(outputs), name="sum")
        model.compile(keras.optimizers.SGD(0.125))
        stock = keras.Sequential([keras.Input((4,)), dense()])
        stock.compile(keras.optimizers.SGD(0.125), "mse")
        expected = weights_after(stock, x=X, y=Y)
        model.save(tmp_path / "model.keras")
        for one in (model, keras.models.load_model(tmp_path / "model.keras")):
            history = one.fit([X, Y], batch_size=4, shuffle=False, verbose=0).history
            np.testing.assert_allclose(history["loss"], stock.history.history["loss"], rtol=1e-6)
            assert len(history["sum"]) == 1
            for own, other in zip(one.get_weights(), expected, strict=True):
                np.testing.assert_allclose(own, other, rtol=1e-6)
    assert model.outputs == [outputs]
    texts = notices()
    for name in ("`model.add_loss(tensor)`", "`layer.add_metric(tensor, name=)`"):
        assert sum(name in text for text in texts) == 1


@pytest.mark.slow
def test_a_loss_may_be_a_function(keras_2):
    class Penalised(layers.Dense):
        def build(self, shape):
            super().build(shape)
            self.add_loss(lambda: 0.25 * tf.reduce_sum(self.kernel**2))

    options = {"kernel_initializer": START}
    model = keras.Sequential([keras.Input((4,)), Penalised(1, **options)])
    regular = keras.regularizers.L2(0.25)
    stock = keras.Sequential([keras.Input((4,)), dense(kernel_regularizer=regular)])
    for one in (model, stock):
        one.compile(keras.optimizers.SGD(0.125), "mse")
    for own, other in zip(
        weights_after(model, x=X, y=Y), weights_after(stock, x=X, y=Y), strict=True
    ):
        np.testing.assert_allclose(own, other, rtol=1e-6)
    assert [float(loss) for loss in model.losses] == [float(stock.losses[0])]


@pytest.mark.slow
def test_a_layer_adds_metrics(keras_2):
    class Logged(layers.Layer):
        def __init__(self):
            super().__init__()
            self.largest = keras.metrics.Mean(name="own")

        def call(self, x):
            self.add_metric(tf.reduce_mean(x), name="mean", aggregation="mean")
            self.add_metric(self.largest(x))
            self.add_loss(0.5, inputs=x)
            return x

    with IPUStrategy().scope():
        model = keras.Sequential([keras.Input((4,)), Logged(), layers.Dense(1)])
        model.compile("sgd", "mse")
        for _ in range(2):
            history = model.fit(X, Y, batch_size=4, verbose=0).history
        for name in ("mean", "own"):
            np.testing.assert_allclose(history[name], [X.mean()], rtol=1e-6)
        assert model.metrics_names == ["loss", "mean", "own"] or model.metrics_names == [
            "loss",
            "own",
            "mean",
        ]


def test_metrics_need_a_name_and_a_model(keras_2):
    layer = layers.Layer(name="a")
    with pytest.raises(ValueError, match="`add_metric` of 'a': Please provide a name for"):
        layer.add_metric(tf.constant(1.0))
    with pytest.raises(ValueError, match='aggregation of "b" is None or "mean".*\'sum\''):
        layer.add_metric(tf.constant(1.0), "b", "sum")
    with pytest.raises(ValueError, match='"b" is a symbolic tensor'):
        layer.add_metric(keras.Input((4,)), "b")
    first, second = keras.metrics.Mean("c"), keras.metrics.Mean("c")
    layer.add_metric(first(tf.constant(1.0)))
    layer.add_metric(first(tf.constant(1.0)))
    with pytest.raises(ValueError, match='different names.* We found 2 metrics with the name: "c"'):
        layer.add_metric(second(tf.constant(1.0)))


@pytest.mark.slow
@pytest.mark.parametrize("on_ipu", [True, False])
def test_a_sequential_computes_losses_and_metrics(keras_2, on_ipu):
    strategy = IPUStrategy() if on_ipu else tf.distribute.get_strategy()
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), dense(name="first"), dense()])
        between = model.layers[0].output
        model.add_loss(tf.reduce_sum(between))
        model.add_metric(tf.reduce_sum(between), name="sum")
        model.compile("sgd", "mse")
        results = model.evaluate(X, Y, batch_size=4, verbose=0, return_dict=True)
        again = model.evaluate(X, Y, batch_size=4, verbose=0, return_dict=True)
        history = model.fit(X, Y, batch_size=8, verbose=0).history
    sums, outputs = 0.5 * X.sum(1, keepdims=True), 0.25 * X.sum(1, keepdims=True)
    error = np.mean(np.square(outputs - Y))
    assert results == again
    np.testing.assert_allclose(results["sum"], sums.sum() / 2, rtol=1e-5)
    np.testing.assert_allclose(results["loss"], sums.sum() / 2 + error, rtol=1e-5)
    np.testing.assert_allclose(history["loss"], [sums.sum() + error], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")
def test_a_metric_takes_tensors_of_a_functional_model(keras_2, tmp_path):
    inputs, targets = keras.Input((4,)), keras.Input((1,))
    outputs = dense()(inputs)
    model = keras.Model([inputs, targets], outputs)
    model.add_metric(keras.metrics.MeanAbsoluteError(name="error")(targets, outputs))
    model.compile("sgd", "mse")
    model.save(tmp_path / "model.keras")
    for one in (model, keras.models.load_model(tmp_path / "model.keras")):
        results = one.evaluate([X, Y], Y, batch_size=4, verbose=0, return_dict=True)
        expected = np.mean(np.abs(0.5 * X.sum(1, keepdims=True) - Y))
        np.testing.assert_allclose(results["error"], expected, rtol=1e-5)
