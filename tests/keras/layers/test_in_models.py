"""Every layer in models of every kind: in and out of the scope, trained, copied, from files."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.keras import layers
from tests.grids import mostly_slow

# Keras reads its variables through an older NumPy protocol when it saves them.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")

SAMPLES, BATCH, STEPS, FEATURES = 16, 8, 6, 4
MAKERS = {
    "dropout": lambda: layers.Dropout(0.25, noise_shape=(None, 1, FEATURES), seed=(3, 4)),
    "lstm": lambda: layers.LSTM(
        4, dropout=0.1, dropout_seed=(1, 2), return_sequences=True, options={"a": 1}, seed=1
    ),
    "gru": lambda: layers.GRU(4, reset_after=False, partials_dtype="float16", seed=1),
    "group norm": lambda: layers.GroupNorm(2, beta_initializer="ones", epsilon=0.01),
    "instance norm": lambda: layers.InstanceNorm(channels_axis=1, scale=False),
    "layer norm": lambda: layers.LayerNorm(axis=[1, 2]),
    "serial dense": lambda: layers.SerialDense(
        4, 2, "input_columns", activation="tanh", kernel_regularizer="l2"
    ),
    "assume equal": lambda: layers.AssumeEqualAcrossReplicas(inplace=True),
    "checkpoint": lambda: layers.RecomputationCheckpoint(),
    "upstream gradients": lambda: layers.CaptureUpstreamGradients(
        keras.layers.Dense(4, activation="relu"), tag="up"
    ),
    "activation gradients": lambda: layers.CaptureActivationGradients(
        keras.layers.Dense(4, activation="relu")
    ),
    "embedding": lambda: keras.Sequential([Ids(), layers.Embedding(8, 4, serialization_factor=2)]),
}


@keras.saving.register_keras_serializable("ipu_tf_layer_tests")
class Ids(keras.layers.Layer):
    """Integers from 0 to 7, made of the first feature."""

    def call(self, inputs):
        return tf.cast(tf.clip_by_value(inputs[..., 0] * 2 + 4, 0, 7), "int32")


@keras.saving.register_keras_serializable("ipu_tf_layer_tests")
class Net(keras.Model):
    """A subclassed model around a layer."""

    def __init__(self, layer, **kwargs):
        super().__init__(**kwargs)
        self.layer = layer
        self.flatten = keras.layers.Flatten()
        self.head = keras.layers.Dense(1)

    def call(self, inputs):
        return self.head(self.flatten(self.layer(inputs)))

    def get_config(self):
        return {**super().get_config(), "layer": keras.layers.serialize(self.layer)}

    @classmethod
    def from_config(cls, config):
        return cls(keras.layers.deserialize(config.pop("layer")), **config)


def functional(layer):
    inputs = keras.Input((STEPS, FEATURES), batch_size=BATCH)
    outputs = keras.layers.Dense(1)(keras.layers.Flatten()(layer(inputs)))
    return keras.Model(inputs, outputs)


def sequential(layer):
    return keras.Sequential([layer, keras.layers.Flatten(), keras.layers.Dense(1)])


KINDS = {"functional": functional, "sequential": sequential, "subclass": Net}
# Every layer in a functional model, some in the others.
PAIRS = [
    *((name, "functional") for name in MAKERS),
    *((name, kind) for name in ("lstm", "layer norm") for kind in ("sequential", "subclass")),
]


# One layer of each kind; the tests of each layer have the others.
TRAINED = {
    *((name, "functional") for name in ("dropout", "group norm", "serial dense", "embedding")),
    ("upstream gradients", "functional"),
    ("lstm", "subclass"),
}
SAVED = {("lstm", "functional"), ("upstream gradients", "functional"), ("layer norm", "subclass")}


def pairs(fast):
    """Returns all pairs as parameters; those that are not `fast` are marked slow."""
    return [pytest.param(*pair, marks=[] if pair in fast else pytest.mark.slow) for pair in PAIRS]


@pytest.fixture
def samples():
    random = np.random.default_rng(3)
    x = random.normal(size=(SAMPLES, STEPS, FEATURES)).astype("float32")
    return x, x.sum(axis=(1, 2), keepdims=True)[:, 0].astype("float32")


def compiled(make, kind):
    keras.utils.set_random_seed(5)
    model = KINDS[kind](make())
    model.compile(optimizer=keras.optimizers.Adam(0.02), loss="mse")
    return model


def fit(model, samples, epochs=2):
    return model.fit(*samples, batch_size=BATCH, shuffle=False, epochs=epochs, verbose=0).history


def predict(model, samples):
    return model.predict(samples[0], batch_size=BATCH, verbose=0)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), pairs(fast=TRAINED))
@pytest.mark.fast_cells(2)
def test_training_is_the_same_in_and_out_of_the_scope(strategy, samples, name, kind):
    """All of them are float32 without random draws, so only the order of sums differs."""
    results = []
    for scope in (strategy.scope, contextlib.nullcontext):
        with scope():
            model = compiled(MAKERS[name], kind)
            losses = fit(model, samples)["loss"]
            results.append((losses, predict(model, samples)))
    (losses, outputs), (stock_losses, stock_outputs) = results
    np.testing.assert_allclose(losses, stock_losses, rtol=1e-4)
    np.testing.assert_allclose(outputs, stock_outputs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("name", "kind"), pairs(fast=SAVED))
@pytest.mark.fast_cells(1)
@pytest.mark.slow
def test_a_model_from_a_file_does_the_same(tmp_path, strategy, samples, name, kind):
    with strategy.scope():
        model = compiled(MAKERS[name], kind)
        fit(model, samples)
        model.save(tmp_path / "model.keras")
        loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(predict(loaded, samples), predict(model, samples))
    assert fit(loaded, samples)["loss"] == pytest.approx(fit(model, samples)["loss"], rel=1e-5)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_config_round_trip(make):
    layer = make()
    copied = type(layer).from_config(layer.get_config())
    assert copied.get_config() == layer.get_config()
    assert copied.name == layer.name


@pytest.mark.parametrize(
    "make", mostly_slow(MAKERS, fast=["gru", "instance norm", "activation gradients"])
)
@pytest.mark.fast_cells(1)
@pytest.mark.slow
def test_mixed_precision(strategy, samples, make):
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        with strategy.scope():
            model = compiled(make, "functional")
    finally:
        keras.mixed_precision.set_global_policy("float32")
    losses = fit(model, samples, epochs=4)["loss"]
    assert losses[-1] < losses[0]
    assert model.layers[1].compute_dtype == "float16"


@pytest.mark.parametrize(
    "make", mostly_slow(MAKERS, fast=["serial dense", "checkpoint", "upstream gradients"])
)
@pytest.mark.fast_cells(1)
def test_inner_models_and_copies(strategy, samples, make):
    with strategy.scope():
        model = compiled(make, "functional")
        outer = keras.Sequential([model])
        copied = keras.models.clone_model(model)
        copied.set_weights(model.get_weights())
    expected = predict(model, samples)
    np.testing.assert_allclose(predict(outer, samples), expected, rtol=1e-6)
    np.testing.assert_allclose(predict(copied, samples), expected, rtol=1e-6)
