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
