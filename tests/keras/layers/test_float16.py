"""Layers in float16: values and gradients are those of float32, rounded."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.keras import layers

pytestmark = pytest.mark.slow

RANDOM = np.random.default_rng(5)
BATCH, STEPS, FEATURES = 2, 3, 4
X = RANDOM.normal(size=(BATCH, STEPS, FEATURES)).astype("float16")
IDS = np.array([[0, 3, 3], [1, 2, 0]], "int32")
LABELS, LENGTHS = np.array([[1, 2], [3, 0]], "int32"), np.array([2, 1], "int32")
TIMES = np.full(BATCH, STEPS, "int32")
SEQUENCES = np.array([[1, 2, 0], [3, 0, 0]], "float16")
COUNTS = np.array([2, 1], "int32")


def of_ids(layer, x):
    return layer(IDS)


def of_labels(layer, x):
    return layer(LABELS, tf.transpose(x, (1, 0, 2)), LENGTHS, TIMES)


def of_sequences(layer, x):
    packed = tf.cast(SEQUENCES, x.dtype) + x[..., 0]
    return layer([packed, COUNTS, packed, COUNTS])[0]


def plain(layer, x):
    return layer(x)


CASES = {
    "embedding": (layers.Embedding, {"input_dim": 5, "output_dim": 3}, of_ids),
    "serial dense": (
        layers.SerialDense,
        {
            "units": 6,
            "serialization_factor": 2,
            "serialization_dimension": "kernel_rows",
            "activation": "tanh",
        },
        plain,
    ),
    "group norm": (layers.GroupNormalization, {"groups": 2}, plain),
    "instance norm": (layers.InstanceNormalization, {}, plain),
    "layer norm": (layers.LayerNormalization, {"axis": [1, 2]}, plain),
    "lstm": (layers.LSTM, {"units": 3, "return_sequences": True}, plain),
    "gru": (layers.GRU, {"units": 3, "reset_after": False}, plain),
    "ctc loss": (layers.CTCLoss, {"from_logits": True}, of_labels),
    "effective transformer": (
        layers.EffectiveTransformer,
        {"output_layer_size": 4, "max_batch_size": 2, "attention_head_size": 2},
        of_sequences,
    ),
    "assume equal": (layers.AssumeEqualAcrossReplicas, {}, plain),
    "checkpoint": (layers.RecomputationCheckpoint, {}, plain),
}


@pytest.fixture
def strategy(strategy):
    with strategy.scope():
        yield strategy


def found(strategy, name, dtype, weights=None):
    """The value of a layer, its gradients, and its weights."""
    made, arguments, call = CASES[name]
    layer = made(**arguments, dtype=dtype)
    call(layer, tf.constant(X, dtype))
    if weights is not None:
        layer.set_weights(weights)

    @tf.function
    def step(x):
        sources = [x, *layer.trainable_weights]
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = call(layer, x)
            ramp = tf.reshape(tf.linspace(1.0, 2.0, tf.size(value)), value.shape)
            loss = tf.reduce_sum(ramp * tf.cast(value, tf.float32) ** 2)
        gradients = tape.gradient(loss, sources, unconnected_gradients="zero")
        return [value, *map(tf.convert_to_tensor, gradients)]

    return strategy.run(step, args=(tf.constant(X, dtype),)), layer.get_weights()


@pytest.mark.parametrize("name", CASES)
def test_float16_gives_the_numbers_of_float32(strategy, name):
    keras.utils.set_random_seed(3)
    halves, weights = found(strategy, name, "float16")
    singles, _ = found(strategy, name, "float32", [w.astype("float32") for w in weights])
    for half, single in zip(halves, singles, strict=True):
        assert (half.dtype, single.dtype) == (tf.float16, tf.float32)
        largest = np.abs(single).max()
        np.testing.assert_allclose(half, single, rtol=1e-2, atol=8e-3 * largest)
    assert np.abs(singles[-1]).max() > 0
