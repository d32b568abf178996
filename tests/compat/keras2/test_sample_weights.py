"""Weights of samples, by names of outputs and beside weights of classes."""

import keras
import numpy as np
import pytest

from ipu_tf import IPUStrategy
from ipu_tf.compat.keras2.sample_weights import like_targets

A, B, W = np.zeros((4, 1)), np.ones((4, 2)), np.arange(4.0)
ONES = np.ones(4)


@pytest.mark.parametrize(
    ("weights", "targets", "expected"),
    [
        ({"b": W}, [A, B], [ONES, W]),
        ({"b": W, "a": ONES}, (A, B), (ONES, W)),
        ({"b": W}, {"a": A, "b": B}, {"a": ONES, "b": W}),
        ([ONES, W], {"b": B, "a": A}, {"a": ONES, "b": W}),
        ((ONES, W), [A, B], [ONES, W]),
    ],
)
def test_weights_get_the_structure_of_the_targets(weights, targets, expected):
    keras.tree.map_structure(
        np.testing.assert_array_equal, like_targets(weights, targets, ["a", "b"]), expected
    )


@pytest.mark.parametrize("weights", [{"c": W}, W, None, [W]])
def test_weights_that_name_no_outputs_are_as_they_are(weights):
    assert like_targets(weights, [A, B] if weights is not None else A, ["a", "b"]) is weights


@pytest.mark.slow
def test_names_weight_the_losses_of_outputs(keras_2, notices):
    x = np.random.default_rng(0).random((8, 3), dtype=np.float32)
    targets = [x[:, :1], x[:, :2]]
    weights = np.linspace(0, 2, 8, dtype=np.float32)
    with IPUStrategy().scope():
        entry = keras.Input((3,))
        outputs = [
            keras.layers.Dense(size, name=name)(entry) for name, size in (("a", 1), ("b", 2))
        ]
        model = keras.Model(entry, outputs)
        model.compile("sgd", ["mse", "mse"])
        by_name = model.evaluate(x, targets, batch_size=4, sample_weight={"b": weights}, verbose=0)
        stock = model.evaluate(
            x, targets, batch_size=4, sample_weight=[np.ones(8), weights], verbose=0
        )
    np.testing.assert_allclose(by_name, stock, rtol=1e-6)
    notices.once("`fit(sample_weight=")


@pytest.mark.slow
@pytest.mark.parametrize("one_hot", [False, True])
def test_weights_of_samples_and_classes_are_multiplied(keras_2, notices, one_hot):
    x = np.random.default_rng(0).random((8, 3), dtype=np.float32)
    classes = np.arange(8) % 2
    weights = np.linspace(0, 2, 8, dtype=np.float32)
    loss = "categorical_crossentropy" if one_hot else "sparse_categorical_crossentropy"
    targets = np.eye(2, dtype=np.float32)[classes] if one_hot else classes.astype(np.int32)
    losses = []
    with IPUStrategy().scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, "softmax")])
        model.compile(keras.optimizers.SGD(0.0), loss)
        for given in (
            {"sample_weight": weights, "class_weight": {1: 3.0, 0: 1.0}},
            {"sample_weight": weights * np.where(classes == 1, 3.0, 1.0).astype(np.float32)},
        ):
            history = model.fit(x, targets, batch_size=4, shuffle=False, verbose=0, **given)
            losses.append(history.history["loss"])
    np.testing.assert_allclose(*losses, rtol=1e-6)
    notices.once("`fit(class_weight=, sample_weight=)`")
