"""Recurrent layers against those of Keras, and against steps in NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.ops import rnn_ops

STEPS, BATCH, FEATURES, UNITS = 4, 3, 5, 2
RANDOM = np.random.default_rng(12)
X = RANDOM.normal(size=(STEPS, BATCH, FEATURES)).astype("float32")
STATE = RANDOM.normal(size=(2, BATCH, UNITS)).astype("float32")
LENGTHS = np.array([4, 1, 2])


def keras_twin(layer):
    """The layer of Keras with the weights of ours: the gates are in one order."""
    shared = {"return_sequences": True, "return_state": True}
    if isinstance(layer, rnn_ops.PopnnLSTM):
        twin = keras.layers.LSTM(UNITS, **shared)
    else:
        twin = keras.layers.GRU(UNITS, reset_after=len(layer.canonical_bias_shapes) == 3, **shared)
    twin.build((BATCH, STEPS, FEATURES))
    kernel, biases = layer.kernel.numpy(), layer.biases.numpy()
    biases = biases.reshape(-1) if biases.ndim == 2 else biases.swapaxes(0, 1).reshape(2, -1)
    twin.set_weights([kernel[:FEATURES], kernel[FEATURES:], biases])
    return twin


CELLS = {
    "lstm": lambda **kw: rnn_ops.PopnnLSTM(UNITS, **kw),
    "gru": lambda **kw: rnn_ops.PopnnGRU(UNITS, **kw),
    "gru, reset after": lambda **kw: rnn_ops.PopnnGRU(UNITS, reset_after=True, **kw),
}


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS)
def test_outputs_states_and_gradients_are_those_of_keras(strategy, cell):
    noise = keras.initializers.RandomNormal(seed=4)
    layer = CELLS[cell](seed=3, bias_initializer=noise)
    state = rnn_ops.LSTMStateTuple(*STATE) if cell == "lstm" else STATE[1]

    def loss(outputs, states):
        parts = [tf.reduce_sum(part**2) for part in tf.nest.flatten(states)]
        return tf.reduce_sum(outputs * tf.range(float(UNITS))) + tf.add_n(parts)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs, states = layer(x, initial_state=state)
            value = loss(outputs, states)
        return outputs, states, *tape.gradient(value, [x, layer.kernel])

    outputs, states, of_x, of_kernel = strategy.run(step, args=(tf.constant(X),))
    twin = keras_twin(layer)
    x = tf.constant(X.swapaxes(0, 1))
    with tf.GradientTape() as tape:
        tape.watch(x)
        initial = [STATE[1], STATE[0]] if cell == "lstm" else STATE[1]
        expected, *after = twin(x, initial_state=initial)
        value = loss(tf.transpose(expected, (1, 0, 2)), after)
    x_gradient, inputs_gradient = tape.gradient(value, [x, twin.cell.kernel.value])
    np.testing.assert_allclose(outputs, tf.transpose(expected, (1, 0, 2)), rtol=1e-4, atol=1e-5)
    states = [states.h, states.c] if cell == "lstm" else [states]
    for found, wanted in zip(states, after, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(of_x, tf.transpose(x_gradient, (1, 0, 2)), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(of_kernel[:FEATURES], inputs_gradient, rtol=1e-3, atol=1e-4)
    names = [variable.name.rpartition("/")[2] for variable in layer.trainable_variables]
    assert names == ["biases:0", "kernel:0"]
    assert layer(X, training=False)[0].shape == (STEPS, BATCH, UNITS)


@pytest.mark.slow
def test_float16_is_near_float32(strategy):
    half, single = (rnn_ops.PopnnLSTM(UNITS, dtype=dtype, seed=3) for dtype in ("half", "float32"))
    on_device = strategy.run(
        tf.function(lambda x: half(x)[0]), args=(tf.constant(X.astype("float16")),)
    )
    assert on_device.dtype == tf.float16
    np.testing.assert_allclose(on_device, single(X)[0], atol=5e-3)


@pytest.mark.parametrize("layer", [rnn_ops.PopnnDynamicLSTM, rnn_ops.PopnnDynamicGRU])
def test_sequences_end_at_their_lengths(layer):
    layer = layer(UNITS, seed=3)
    outputs, states = layer(X, LENGTHS)
    whole = super(type(layer), layer).call
    for sequence, length in enumerate(LENGTHS):
        wanted, after = whole(X[:length])
        np.testing.assert_allclose(outputs[:length, sequence], wanted[:, sequence], rtol=1e-5)
        assert not np.any(outputs[length:, sequence])
        for found, expected in zip(tf.nest.flatten(states), tf.nest.flatten(after), strict=True):
            np.testing.assert_allclose(found[sequence], expected[sequence], rtol=1e-5)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_eager_outputs_are_those_of_keras_with_the_same_kernel(cell):
    layer = CELLS[cell](seed=3, bias_initializer=keras.initializers.RandomNormal(seed=4))
    outputs, _ = layer(X)
    expected = keras_twin(layer)(X.swapaxes(0, 1))[0]
    np.testing.assert_allclose(outputs, tf.transpose(expected, (1, 0, 2)), rtol=1e-4, atol=1e-5)


def test_attention_damps_the_update_gate():
    layer = rnn_ops.PopnnAUGRU(UNITS, seed=3)
    scores = RANDOM.uniform(size=(BATCH, STEPS)).astype("float32")
    outputs, state = layer(X.swapaxes(0, 1), LENGTHS, scores, time_major=False)
    kernel, state_kernel = np.split(layer.kernel.numpy(), [FEATURES])

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    h = np.zeros((BATCH, UNITS))
    for step in range(STEPS):
        part = X[step] @ kernel
        gates = part[:, : 2 * UNITS] + h @ state_kernel[:, : 2 * UNITS] + 1
        update, reset = np.split(sigmoid(gates), 2, axis=1)
        candidate = np.tanh(part[:, 2 * UNITS :] + (reset * h) @ state_kernel[:, 2 * UNITS :])
        update = update * (1 - scores[:, step, None])
        inside = (step < LENGTHS)[:, None]
        h = np.where(inside, update * h + (1 - update) * candidate, h)
        np.testing.assert_allclose(outputs[step], np.where(inside, h, 0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(state, h, rtol=1e-4)
    steps_first, _ = layer(X, LENGTHS, scores.T)
    np.testing.assert_array_equal(steps_first, outputs)  # Steps come first in any case.


@pytest.mark.slow
def test_layers_made_in_a_function_keep_their_weights(strategy):
    @tf.function
    def step(x):
        outputs = rnn_ops.PopnnLSTM(UNITS, return_state=False)(x)
        return outputs, rnn_ops.PopnnLSTM(UNITS, return_state=False)(x)

    first, other = strategy.run(step, args=(tf.constant(X),))
    again, _ = strategy.run(step, args=(tf.constant(X[:2]),))
    np.testing.assert_allclose(again, first[:2], rtol=1e-5)
    assert not np.allclose(first, other)


def test_shapes_and_arguments():
    lstm, gru = rnn_ops.PopnnLSTM(UNITS), rnn_ops.PopnnGRU(UNITS)
    assert gru.state_shape(7) == [7, UNITS]
    assert lstm.state_shape(7) == ([7, UNITS], [7, UNITS])
    assert (lstm.num_units, lstm.num_layers, lstm.built, lstm.saveable) == (UNITS, 1, False, False)
    with pytest.raises(ValueError, match="does not know its number of features before it is built"):
        lstm.canonical_weight_shape  # noqa: B018
    lstm.build(X.shape)
    assert lstm.input_size == FEATURES
    assert lstm.canonical_weight_shape == lstm.kernel.shape == [FEATURES + UNITS, 4 * UNITS]
    assert lstm.canonical_bias_shapes == lstm.biases.shape == [4, UNITS]
    assert lstm(X.astype("float64"))[0].dtype == tf.float32
    with pytest.raises(ValueError, match=r"must be an LSTMStateTuple\(c, h\).*a tuple"):
        lstm(X, initial_state=tuple(STATE))
    with pytest.raises(ValueError, match="num_units must be a positive integer"):
        rnn_ops.PopnnGRU(0)
    with pytest.raises(ValueError, match="only float16 and float32 are supported"):
        rnn_ops.PopnnGRU(1, dtype=tf.int32)
    with pytest.raises(ValueError, match="partials_dtype must be tf.float16 or tf.float32"):
        rnn_ops.PopnnGRU(1, partials_dtype=tf.int32)
    with pytest.raises(ValueError, match="`recurrent_activation` must be one of tanh, softmax"):
        rnn_ops.PopnnGRU(1, recurrent_activation="relu")
    with pytest.raises(ValueError, match=r"static shape \[steps, batch, features\]. Received"):
        rnn_ops.PopnnLSTM(UNITS)(X[0])
    with pytest.raises(ValueError, match="has dtype float32: tf.cast the inputs. .*float16"):
        lstm(tf.constant(X, tf.float16))
    with pytest.raises(ValueError, match="seq_len must have a length for each of 3 sequences"):
        rnn_ops.PopnnDynamicGRU(UNITS)(X, [1, 2])
    with pytest.raises(ValueError, match=r"first axes of the inputs, \[steps, batch\] = \[4, 3\]"):
        rnn_ops.PopnnAUGRU(UNITS)(X, LENGTHS, np.ones((3, 4), "float32"))
