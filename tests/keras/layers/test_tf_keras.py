"""The layers for tf_keras compute what those for Keras 3 do, in the classes of the vendor."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.keras import layers as ours
from ipu_tf.keras.layers import dense

tf_keras = pytest.importorskip("tf_keras")
layers = pytest.importorskip("ipu_tf.keras.tf_keras.layers")

RANDOM = np.random.default_rng(4)
X = RANDOM.normal(size=(4, 6, 8)).astype("float32")
TOKENS = RANDOM.integers(0, 9, (4, 6)).astype("int32")
NAMES = np.array([2, 3], "int32")
LOGITS = RANDOM.normal(size=(5, 2, 3)).astype("float32")
LENGTHS = np.array([5, 4], "int32")
LABELS = RANDOM.integers(1, 3, (2, 3)).astype("int32")

CASES = {
    "AssumeEqualAcrossReplicas": ({}, [X]),
    "CTCInferenceLayer": ({"from_logits": True, "beam_width": 4}, [LOGITS, LENGTHS]),
    "CTCLoss": ({"from_logits": True}, [LABELS, LOGITS, NAMES, LENGTHS]),
    "CTCPredictionsLayer": ({"from_logits": True, "beam_width": 4}, [LOGITS, LENGTHS]),
    "Dense": ({"units": 3, "activation": "relu"}, [X]),
    "Dropout": ({"rate": 0.5, "seed": (1, 2)}, [X]),
    "Embedding": ({"input_dim": 9, "output_dim": 4, "serialization_factor": 3}, [TOKENS]),
    "GRU": ({"units": 3, "return_sequences": True}, [X]),
    "GroupNorm": ({"groups": 4}, [X]),
    "InstanceNorm": ({}, [X]),
    "LSTM": ({"units": 3, "return_state": True, "dropout": 0.5, "dropout_seed": (1, 2)}, [X]),
    "LayerNorm": ({"axis": [1, 2]}, [X]),
    "LayerNormalization": ({"axis": 1, "epsilon": 0.1, "scale": False}, [X]),
    "PopnnLSTM": ({"units": 3, "time_major": True, "return_sequences": True}, [X]),
    "RecomputationCheckpoint": ({}, [X]),
    "SerialDense": (
        {"units": 4, "serialization_factor": 2, "serialization_dimension": "kernel_rows"},
        [X],
    ),
}


def pair(name):
    """The layer of each Keras, with the weights of that of Keras 3, and what it returned."""
    arguments, inputs = CASES[name]
    kind = dense.Dense if name == "Dense" else getattr(ours, name)
    found = kind(**arguments), getattr(layers, name)(**arguments)
    takes_training = name in ("Dropout", "LSTM")
    outputs = [
        keras.tree.flatten(layer(*inputs, **({"training": True} if takes_training else {})))
        for layer in found
    ]
    return (*found, outputs[0], takes_training)


@pytest.mark.fast_cells(8)
@pytest.mark.parametrize("name", CASES)
def test_a_layer_computes_that_of_keras_3(name):
    inputs = CASES[name][1]
    stock, layer, expected, takes_training = pair(name)
    assert isinstance(layer, tf_keras.layers.Layer)
    assert [weight.shape for weight in layer.get_weights()] == [
        weight.shape for weight in stock.get_weights()
    ]
    layer.set_weights(stock.get_weights())
    again = type(layer).from_config(layer.get_config())
    again(*inputs)
    again.set_weights(stock.get_weights())
    for one in (layer, again):
        found = tf.nest.flatten(one(*inputs, **({"training": True} if takes_training else {})))
        for value, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-5)


def test_layers_are_in_the_vendor_s_classes():
    for name in ("Dropout", "Embedding", "GroupNorm", "LSTM", "LayerNorm", "SerialDense"):
        assert issubclass(getattr(layers, name), layers.IPULayer)
    assert issubclass(layers.LSTM, tf_keras.layers.LSTM)
    assert not any(name not in layers.__all__ for name in ours.__all__)


def test_a_script_s_subclass_reaches_the_layer():
    class Doubled(layers.LayerNormalization):
        def call(self, inputs):
            return 2 * super().call(inputs)

    class OfRows(layers.LayerNormalization):
        def call(self, inputs, training=None):
            rows = tf.reshape(inputs, [-1, inputs.shape[-1]])
            normalized = super(layers.LayerNormalization, self).call(rows, training)
            return tf.reshape(normalized, inputs.shape)

    x = X - 3
    normalized = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-3)
    np.testing.assert_allclose(Doubled()(x), 2 * normalized, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(OfRows()(x), normalized, rtol=1e-4, atol=1e-5)
    assert issubclass(layers.LayerNorm, layers.GroupNorm)


def test_arguments_that_the_ipu_does_not_use_are_refused():
    with pytest.raises(NotImplementedError, match="Embedding does not support __init__ argument m"):
        layers.Embedding(3, 2, mask_zero=True)
    with pytest.raises(NotImplementedError, match="LSTM does not support __init__ argument unroll"):
        layers.LSTM(3, unroll=True)


def test_dropout_draws_a_new_mask_without_a_seed():
    layer, x = layers.Dropout(0.5), np.ones((40, 40), "float32")
    np.testing.assert_array_equal(layer(x), x)
    masks = [layer(x, training=True).numpy() for _ in range(2)]
    assert set(np.unique(masks)) == {0, 2}
    assert (masks[0] != masks[1]).any()


def test_initial_states_and_symbolic_calls():
    layer = layers.LSTM(3)
    inputs = tf_keras.Input((6, 8))
    states = [tf_keras.Input((3,)) for _ in range(2)]
    model = tf_keras.Model([inputs, *states], layer(inputs, initial_state=states))
    values = [tf.ones((4, 3))] * 2
    found = model([X, *values])
    np.testing.assert_allclose(found, layer(tf.constant(X), initial_state=values), rtol=1e-5)
    assert (found.numpy() != layer(tf.constant(X)).numpy()).any()


def test_an_effective_transformer_computes_that_of_keras_3():
    arguments = {"output_layer_size": 4, "max_batch_size": 2, "num_attention_heads": 2}
    stock, layer = ours.EffectiveTransformer(**arguments), layers.EffectiveTransformer(**arguments)
    sequences, lengths = TOKENS[:2].astype("float32"), np.array([3, 6], "int32")
    inputs = [tf.constant(one) for one in (sequences, lengths, sequences, lengths)]
    expected, _ = stock(inputs)
    layer(inputs)
    layer.set_weights(stock.get_weights())
    np.testing.assert_allclose(layer(inputs)[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["CaptureUpstreamGradients", "CaptureActivationGradients"])
def test_a_wrapper_of_gradients_computes_its_layer(kind):
    inner = tf_keras.layers.Dense(2, activation="relu")
    layer = getattr(layers, kind)(inner)
    found = layer(X)
    np.testing.assert_allclose(found, inner(X) if inner.built else layer.layer(X), rtol=1e-5)
    again = type(layer).from_config(layer.get_config())
    assert (again.tag, again(X).shape) == (layer.tag, found.shape)
    with pytest.raises(ValueError, match=f"{kind}: expected an instance of a Keras layer"):
        getattr(layers, kind)(X)


def test_an_embedding_may_come_first():
    model = tf_keras.Sequential([layers.Embedding(9, 4), layers.LSTM(3)])
    assert model(TOKENS).shape == (4, 3)
