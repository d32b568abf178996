"""Weights, and states of optimizers, that a checkpoint sets when they are made."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy

X = np.random.default_rng(1).random((8, 4), dtype=np.float32)
Y = X.sum(axis=1, keepdims=True)


class Own(keras.Model):
    def __init__(self, units=3):
        super().__init__()
        self.first = keras.layers.Dense(units)
        self.rest = [keras.layers.Dense(1)]

    def call(self, x):
        return self.rest[0](self.first(x))


def fit(model):
    model.fit(X, Y, batch_size=4, shuffle=False, verbose=0)
    return model.get_weights()


@pytest.fixture
def path(keras_2, tmp_path):
    """A checkpoint of a model that was not trained."""
    model = Own()
    model(X)
    model.save_weights(tmp_path / "weights")
    np.save(tmp_path / "outputs.npy", model(X))
    return tmp_path / "weights"


def outputs_of(path):
    return np.load(path.with_name("outputs.npy"))


def test_weights_are_set_when_they_are_made(path, notices):
    model = Own()
    status = model.load_weights(path)
    with pytest.raises(AssertionError, match="no weights yet: .*call the model with a batch"):
        status.assert_consumed()
    np.testing.assert_array_equal(model(X), outputs_of(path))
    status.assert_consumed()


@pytest.mark.filterwarnings("ignore:Layer 'own.*looks like it has unbuilt state")
def test_weights_that_do_not_fit_are_refused_when_they_are_made(path):
    model = Own(units=5)
    model.load_weights(path)
    with pytest.raises(ValueError, match=r"does not hold the weights of model 'own.*\[4, 5\]"):
        model(X)


@pytest.mark.slow
@pytest.mark.parametrize("compile_first", [True, False])
def test_training_on_the_ipu_goes_on_from_a_checkpoint(keras_2, tmp_path, compile_first):
    with IPUStrategy().scope():
        trained, model = Own(), Own()
        trained.compile(keras.optimizers.Adam(0.1), "mse")
        fit(trained)
        trained.save_weights(tmp_path / "weights")
        steps = [
            lambda: model.compile(keras.optimizers.Adam(0.1), "mse"),
            lambda: model.load_weights(tmp_path / "weights"),
        ]
        for step in steps if compile_first else reversed(steps):
            step()
        for own, other in zip(fit(model), fit(trained), strict=True):
            np.testing.assert_array_equal(own, other)
    assert int(model.optimizer.iterations) == 4


def test_a_model_without_a_build_makes_the_weights_of_its_layers(keras_2, notices):
    model = Own()
    model.build(tf.TensorShape([None, 4]))
    assert [weight.shape for weight in model.weights] == [(4, 3), (3,), (3, 1), (1,)]
    notices.once("`model.build(input_shape)`")


def test_a_build_whose_call_fails_says_so(keras_2):
    class Lookup(keras.Model):
        def __init__(self):
            super().__init__()
            self.layer = keras.layers.Dense(1)

        def call(self, x):
            return self.layer(tf.gather(tf.eye(3), x))

    with pytest.raises(
        ValueError,
        match="(?s)its `call` fails on float inputs.*do not support float type inputs: call the",
    ):
        Lookup().build((None, 4))
    with pytest.raises(ValueError, match=r"shape is not one of the valid types.*Received: 4"):
        Own().build(4)


def test_a_model_of_several_inputs_is_built_with_shapes_of_tensorflow(keras_2):
    class Sum(keras.Model):
        def __init__(self):
            super().__init__()
            self.parts = [keras.layers.Dense(1), keras.layers.Dense(1)]

        def call(self, inputs):
            return sum(layer(x) for layer, x in zip(self.parts, inputs, strict=True))

    model = Sum()
    model.build([tf.TensorShape([None, 4]), tf.TensorShape([None, 2])])
    assert [weight.shape for weight in model.weights] == [(4, 1), (1,), (2, 1), (1,)]


@pytest.mark.slow
def test_a_model_of_the_scope_is_built_with_dimensions_of_tensorflow_1(keras_2):
    with IPUStrategy().scope():
        model = Own()
        model.build((tf.compat.v1.Dimension(None), tf.compat.v1.Dimension(4)))
    assert model.weights[0].shape[0] == 4
    assert model.get_build_config() == {"input_shape": (None, 4)}


def test_a_model_whose_call_needs_more_than_its_inputs_is_not_built(keras_2):
    class Sum(Own):
        def call(self, x, further, scale=1.0, training=None):
            return x + scale * further

    with pytest.raises(
        ValueError, match="cannot build your model if it has positional arg.*further"
    ):
        Sum().build((None, 4))


def test_a_sequential_with_an_input_is_built_once_more(keras_2, notices):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    weights = model.get_weights()
    model.build((8, 4))
    np.testing.assert_array_equal(model.get_weights()[0], weights[0])
    assert model._is_graph_network
    with pytest.raises(ValueError, match="cannot build it with input_shape"):
        model.build((8, 5))


def test_a_call_builds_a_model_though_it_has_layers_that_it_does_not_use(keras_2, notices):
    class Sparse(keras.Model):
        def __init__(self):
            super().__init__()
            self.table = keras.layers.Embedding(4, 2)
            self.unused = keras.layers.Dense(1)

        def call(self, number, scale):
            return self.table(tf.bitwise.invert(tf.bitwise.invert(number))) * scale

    model = Sparse()
    with pytest.warns(UserWarning, match="unbuilt state"):
        assert model(np.zeros((3,), np.int32), np.ones((3, 1), np.float32)).shape == (3, 2)
    assert not model.unused.built
    assert not any("build(input_shape)" in text for text in notices())
