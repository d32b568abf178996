"""Layers whose results are mappings of a class of their own."""

from collections import OrderedDict

import keras
import numpy as np

X = np.random.default_rng(1).random((2, 3), dtype=np.float32)


class Results(OrderedDict):
    """Results by their names, which are attributes, too."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Encoder(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)

    def call(self, x):
        tokens = self.dense(x)
        return Results(tokens=tokens, pooled=keras.ops.sum(tokens, axis=1))


def test_a_layer_returns_a_mapping_of_its_own(keras_2, notices):
    inputs = keras.Input((3,))
    results = Encoder()(inputs)
    assert type(results) is Results
    assert (results.tokens.shape, results.pooled.shape) == ((None, 2), (None,))
    model = keras.Model(inputs, keras.layers.Add()([results.tokens, results.tokens]))
    np.testing.assert_allclose(model(X), 2 * model.layers[1](X).tokens, rtol=1e-6)
    notices.once("a subclass of `dict`")


def test_the_outputs_of_a_model_are_in_the_order_of_sorted_keys(keras_2):
    class Heads(Results):
        pass

    inputs = keras.Input((3,))
    start, end = keras.layers.Dense(1, name="first"), keras.layers.Dense(2, name="second")
    model = keras.Model(inputs, Heads(start=start(inputs), end=end(inputs)))
    assert model.output_names == ["second", "first"]
    results = model(X)
    assert list(results) == ["start", "end"]
    np.testing.assert_allclose(results.end, end(X), rtol=1e-6)


class TwoHeads(keras.Model):
    """Returns two results of its own kind of mapping."""

    def __init__(self):
        super().__init__()
        self.scale = keras.layers.Dense(1, kernel_initializer="ones")

    def call(self, x):
        total = self.scale(x)
        return Results(total=total, half=total / 2)


def results_of(model, targets):
    """What `evaluate` returns for the targets of X."""
    model.compile(loss="mse", metrics=["mae"], run_eagerly=True)
    return model.evaluate(X, targets, verbose=0, return_dict=True)


def test_outputs_in_a_mapping_have_one_target(keras_2, notices):
    total, target = X.sum(axis=1), np.ones(2, np.float32)
    errors = {"total": total - target, "half": total / 2 - target}
    results = results_of(TwoHeads(), target[:, np.newaxis])
    np.testing.assert_allclose(
        results["loss"], sum(np.mean(e**2) for e in errors.values()), rtol=1e-5
    )
    for name, error in errors.items():
        np.testing.assert_allclose(results[f"{name}_mae"], np.mean(np.abs(error)), rtol=1e-5)
    notices.once("one target, or targets of some outputs")


def test_outputs_of_a_mapping_without_targets_have_no_loss(keras_2):
    half = X.sum(axis=1) / 2
    results = results_of(TwoHeads(), {"half": np.zeros((2, 1), np.float32)})
    np.testing.assert_allclose(results["loss"], np.mean(half**2), rtol=1e-5)
    np.testing.assert_allclose(results["mae"], np.mean(np.abs(half)), rtol=1e-5)
