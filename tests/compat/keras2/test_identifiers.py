"""Strings that name losses, metrics and constraints."""

import keras
import numpy as np
import pytest

X = np.random.default_rng(1).random((4, 4), dtype=np.float32)
Y = np.eye(4, 3, dtype=np.float32)


def results_of(loss, metrics):
    layer = keras.layers.Dense(3, kernel_initializer="ones", bias_constraint="unit_norm")
    model = keras.Sequential([keras.Input((4,)), layer])
    model.compile("sgd", loss, metrics=metrics)
    return model.evaluate(X, Y, batch_size=4, verbose=0, return_dict=True)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("logcosh", keras.losses.log_cosh, marks=pytest.mark.slow),
        pytest.param("huber_loss", keras.losses.huber, marks=pytest.mark.slow),
        pytest.param(
            "kullback_leibler_divergence", keras.losses.kl_divergence, marks=pytest.mark.slow
        ),
    ],
)
def test_losses_have_their_names_of_keras_2(keras_2, notices, name, expected):
    assert results_of(name, []) == results_of(expected, [])
    notices.once("cosine_proximity")


def test_metrics_have_their_names_of_keras_2(keras_2, notices):
    metrics = {
        "cosine_proximity": keras.metrics.CosineSimilarity,
        "kullback_leibler_divergence": keras.metrics.KLDivergence,
        "log_cosh": keras.metrics.LogCoshError,
    }
    found = results_of("mse", [*metrics])
    expected = results_of("mse", [made(name=name) for name, made in metrics.items()])
    assert found == expected
    notices.once("cosine_proximity")


@pytest.mark.slow
def test_classes_of_metrics_log_their_own_names(keras_2, notices):
    assert results_of("mse", ["AUC", "MeanSquaredError"]).keys() == {
        "loss",
        "auc",
        "mean_squared_error",
    }
    notices.once("names of classes")


def test_constraints_have_their_names_of_keras_2(keras_2):
    assert isinstance(keras.constraints.get("maxnorm"), keras.constraints.MaxNorm)


def test_names_are_unknown_afterwards():
    with pytest.raises(ValueError, match="cosine_proximity"):
        keras.metrics.get("cosine_proximity")
