"""Targets, weights and results of models of several outputs, and results of batches."""

import keras
import numpy as np
import pytest

from ipu_tf import IPUStrategy

X = np.arange(1.0, 5.0, dtype=np.float32)[:, None]
WEIGHTS = np.array([3.0, 1.0, 2.0, 4.0], np.float32)
ERRORS = ((2 * X - X) ** 2).ravel()  # Outputs of 2x beside targets of x.


def two_outputs():
    inputs = keras.Input((1,))
    two = keras.initializers.Constant(2.0)
    doubled = keras.layers.Dense(1, use_bias=False, kernel_initializer=two)
    outputs = [keras.layers.Identity(name=name)(doubled(inputs)) for name in ("a", "b")]
    return keras.Model(inputs, outputs)


@pytest.mark.slow
@pytest.mark.parametrize("y", [[X, X], {"a": X, "b": X}, X], ids=["list", "names", "one"])
@pytest.mark.parametrize("method", ["fit", "evaluate", "train_on_batch", "test_on_batch"])
def test_weights_of_samples_by_the_names_of_outputs(keras_2, y, method):
    with IPUStrategy().scope():
        model = two_outputs()
        weighted = [keras.metrics.MeanSquaredError("w")]
        model.compile(keras.optimizers.SGD(0.0), "mse", metrics=["mae"], weighted_metrics=weighted)
        options = {"batch_size": 4, "verbose": 0} if method in ("fit", "evaluate") else {}
        results = getattr(model, method)(X, y, sample_weight={"b": WEIGHTS}, **options)
        names = ["loss", "a_loss", "b_loss", "a_mae", "a_w", "b_mae", "b_w"]
        assert model.metrics_names == names
    if method == "fit":
        assert [*results.history] == names
        results = [values[0] for values in results.history.values()]
    mean, weighted = ERRORS.mean(), (ERRORS * WEIGHTS).mean()
    absolute, of_weighted = X.mean(), np.average(ERRORS, weights=WEIGHTS)
    expected = [mean + weighted, mean, weighted, absolute, mean, absolute, of_weighted]
    np.testing.assert_allclose(results, expected, rtol=1e-6)


@pytest.mark.slow
def test_outputs_without_a_loss(keras_2, notices):
    model = two_outputs()
    model.compile("sgd", {"b": "mse"}, sample_weight_mode={"b": "temporal"})
    assert model.evaluate(X, X, batch_size=4, verbose=0) == pytest.approx(ERRORS.mean())
    notices.once(
        "with the losses of some outputs", "with one target of several", "sample_weight_mode="
    )


@pytest.mark.slow
def test_added_losses_alone_are_trained_without_targets(keras_2):
    with IPUStrategy().scope():
        inputs = keras.Input((1,))
        layer = keras.layers.Dense(
            1, use_bias=False, kernel_initializer="ones", kernel_regularizer="l2"
        )
        model = keras.Model(inputs, layer(inputs))
        model.compile("sgd", "mse", steps_per_execution=2)
        logs = model.fit(X, batch_size=2, verbose=0).history
    np.testing.assert_allclose(logs["loss"], 0.01, rtol=1e-2)


def test_weights_of_samples_beside_masked_steps(keras_2, notices):
    inputs = keras.Input((2, 1))
    masked = keras.layers.Masking()(inputs)
    outputs = keras.layers.TimeDistributed(keras.layers.Identity())(masked)
    model = keras.Model(inputs, outputs)
    model.compile("sgd", "mse", weighted_metrics=["mae"])
    x = np.array([[[1], [1]], [[2], [2]], [[0], [0]]], np.float32)
    weights = np.array([3.0, 1.0, 5.0], np.float32)
    loss, error = model.test_on_batch(x, 0 * x, sample_weight=weights)
    # The four steps that are not masked have the errors 1, 1, 2, 2.
    np.testing.assert_allclose([loss, error], [(3 * 2 + 4 * 2) / 4, (3 * 2 + 2 * 2) / 8], rtol=1e-6)
    notices.once("beside masked steps")
