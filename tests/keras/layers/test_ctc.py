"""CTC layers against NumPy sums over all alignments."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.keras.layers import CTCInferenceLayer, CTCLoss, CTCPredictionsLayer

STEPS, BATCH, CLASSES = 4, 3, 3
LOGITS = np.random.default_rng(6).normal(size=(STEPS, BATCH, CLASSES)).astype("float32")
LOG_PROBABILITIES = tf.nn.log_softmax(LOGITS).numpy()
LENGTHS = np.array([4, 3, 4], "int32")


def probabilities_of_sequences(log_probabilities, blank):
    """The probability of every sequence of labels, summed over the alignments that give it."""
    sums = {}
    for path in itertools.product(range(CLASSES), repeat=len(log_probabilities)):
        collapsed = tuple(k for k, _ in itertools.groupby(path) if k != blank)
        log_probability = sum(row[k] for row, k in zip(log_probabilities, path, strict=True))
        sums[collapsed] = sums.get(collapsed, 0.0) + np.exp(log_probability)
    return sums


def all_probabilities(blank):
    return [
        probabilities_of_sequences(LOG_PROBABILITIES[:length, sample], blank)
        for sample, length in enumerate(LENGTHS)
    ]


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("blank", [0, 1, 2])
@pytest.mark.parametrize("from_logits", [True, False])
def test_loss_is_the_mean_over_the_batch(blank, from_logits):
    first, second = (label for label in range(CLASSES) if label != blank)
    sequences = [(first, second), (second,), (first, first)]
    labels = np.array([[first, second], [second, blank], [first, first]], "int32")
    label_lengths = np.array([2, 1, 2], "int32")
    loss = CTCLoss(blank, from_logits)(
        labels, LOGITS if from_logits else LOG_PROBABILITIES, label_lengths, LENGTHS
    )
    probabilities = [
        sums[sequence] for sums, sequence in zip(all_probabilities(blank), sequences, strict=True)
    ]
    assert loss.shape == (1,)
    np.testing.assert_allclose(loss, [-np.mean(np.log(probabilities))], rtol=1e-5)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("blank", [0, 1, 2])
@pytest.mark.parametrize("from_logits", [True, False])
def test_inference_finds_the_most_likely_sequences(blank, from_logits):
    layer = CTCInferenceLayer(blank, beam_width=50, top_paths=3, from_logits=from_logits)
    data = LOGITS if from_logits else LOG_PROBABILITIES
    costs, lengths, labels = layer(data, LENGTHS)
    assert (costs.shape, lengths.shape) == ((BATCH, 3), (BATCH, 3))
    assert labels.shape == (BATCH, 3, STEPS)
    for sample, sums in enumerate(all_probabilities(blank)):
        best = sorted(sums.items(), key=lambda item: -item[1])[:3]
        np.testing.assert_allclose(costs[sample], [-np.log(value) for _, value in best], rtol=1e-5)
        for path, (sequence, _) in enumerate(best):
            padded = [*sequence, *[blank] * (STEPS - len(sequence))]
            np.testing.assert_array_equal(labels[sample, path], padded)
            assert int(lengths[sample, path]) == len(sequence)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("top_paths", [1, 3])
def test_predictions_are_the_best_path(top_paths):
    kwargs = {"beam_width": 50, "top_paths": top_paths, "from_logits": True}
    predictions = CTCPredictionsLayer(**kwargs)(LOGITS, LENGTHS)
    _, _, labels = CTCInferenceLayer(**kwargs)(LOGITS, LENGTHS)
    np.testing.assert_array_equal(predictions, labels[:, 0])
    assert predictions.dtype == "int32"


def test_float16_loss():
    labels, lengths = np.array([[1], [2], [1]], "int32"), np.ones(3, "int32")
    half = CTCLoss(from_logits=True, dtype="float16")(labels, LOGITS, lengths, LENGTHS)
    full = CTCLoss(from_logits=True)(labels, LOGITS, lengths, LENGTHS)
    assert half.dtype == "float16"
    np.testing.assert_allclose(half, full, rtol=5e-3)


def test_shapes_of_symbolic_inputs():
    data = keras.Input(batch_shape=(STEPS, BATCH, CLASSES))
    length = keras.Input(batch_shape=(BATCH,), dtype="int32")
    labels = keras.Input(batch_shape=(BATCH, 2), dtype="int32")
    assert CTCLoss()(labels, data, length, length).shape == (1,)
    outputs = CTCInferenceLayer(top_paths=2)(data, length)
    assert [tensor.shape for tensor in outputs] == [(BATCH, 2), (BATCH, 2), (BATCH, 2, STEPS)]
    assert [tensor.dtype for tensor in outputs] == ["float32", "int32", "int32"]
    assert CTCPredictionsLayer()(data, length).shape == (BATCH, STEPS)


@pytest.mark.slow
def test_a_model_trains_on_the_loss(strategy):
    with strategy.scope():
        data = keras.Input(batch_shape=(4, STEPS, 5))
        labels = keras.Input(batch_shape=(4, 2), dtype="int32")
        lengths = [keras.Input(batch_shape=(4,), dtype="int32") for _ in range(2)]
        dense = keras.layers.Dense(CLASSES)(data)
        logits = keras.layers.Lambda(lambda values: tf.transpose(values, (1, 0, 2)))(dense)
        loss = CTCLoss(from_logits=True)(labels, logits, *lengths)
        model = keras.Model((labels, data, *lengths), loss)
        model.compile(optimizer=keras.optimizers.Adam(0.1), loss=lambda _, loss: loss)
    random = np.random.default_rng(2)
    x = (
        random.integers(1, CLASSES, (8, 2)).astype("int32"),
        random.normal(size=(8, STEPS, 5)).astype("float32"),
        np.full(8, 2, "int32"),
        np.full(8, STEPS, "int32"),
    )
    losses = [
        float(model.train_on_batch([part[:4] for part in x], np.zeros((4, 1), "float32")))
        for _ in range(10)
    ]
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.slow
def test_predictions_in_the_scope(strategy):
    with strategy.scope():
        layer = CTCPredictionsLayer(beam_width=50, from_logits=True)
    run = tf.function(lambda data, lengths: layer(data, lengths))
    inside = strategy.run(run, args=(tf.constant(LOGITS), tf.constant(LENGTHS)))
    np.testing.assert_array_equal(inside, layer(LOGITS, LENGTHS))


@pytest.mark.parametrize("kind", [CTCInferenceLayer, CTCPredictionsLayer])
@pytest.mark.parametrize("top_paths", [0, 11])
def test_the_number_of_paths_is_checked(kind, top_paths):
    message = f"{kind.__name__}: top_paths must be from 1 to beam_width. Received: .*={top_paths}"
    with pytest.raises(ValueError, match=message):
        kind(beam_width=10, top_paths=top_paths)
