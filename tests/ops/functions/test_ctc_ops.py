"""CTC losses and decoders against sums over all alignments and against TensorFlow."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.ops.functions import ctc_ops

STEPS, BATCH, CLASSES = 4, 3, 3
LOGITS = np.random.default_rng(6).normal(size=(STEPS, BATCH, CLASSES)).astype("float32")
LOG_PROBABILITIES = tf.nn.log_softmax(LOGITS).numpy()
LENGTHS = np.array([4, 3, 4], "int32")
LOSSES = {
    "logits": (ctc_ops.ctc_loss_v2, LOGITS),
    "log probs": (ctc_ops.ctc_loss_with_log_probs, LOG_PROBABILITIES),
}


def probabilities(sample, blank):
    """The probability of every sequence of labels, summed over the alignments that give it."""
    rows, sums = LOG_PROBABILITIES[: LENGTHS[sample], sample], {}
    for path in itertools.product(range(CLASSES), repeat=len(rows)):
        collapsed = tuple(k for k, _ in itertools.groupby(path) if k != blank)
        log_probability = sum(row[k] for row, k in zip(rows, path, strict=True))
        sums[collapsed] = sums.get(collapsed, 0.0) + np.exp(log_probability)
    return sums


@pytest.mark.parametrize("blank", range(CLASSES))
@pytest.mark.parametrize(("loss", "data"), LOSSES.values(), ids=LOSSES.keys())
@pytest.mark.fast_cells(1)
def test_the_loss_of_every_sequence(blank, loss, data):
    others = [label for label in range(CLASSES) if label != blank]
    for length in range(STEPS + 1):
        for sequence in itertools.product(others, repeat=length):
            # Labels beyond the length are ignored, even if they are not classes.
            labels = np.full((BATCH, STEPS), -7)
            labels[:, :length] = sequence
            losses = loss(labels, data, np.full(BATCH, length), LENGTHS, blank)
            expected = [probabilities(sample, blank).get(sequence, 0) for sample in range(BATCH)]
            with np.errstate(divide="ignore"):
                np.testing.assert_allclose(losses, -np.log(expected), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.slow
def test_gradients_equal_those_of_tensorflow(jit_compile):
    random = np.random.default_rng(2)
    steps, batch, classes, count = 12, 4, 6, 5
    logits = tf.constant(random.normal(size=(steps, batch, classes)), tf.float32)
    labels = tf.constant(random.integers(1, classes, (batch, count)), tf.int32)
    labels = tf.concat([labels[:, :1], labels[:, :-1]], axis=1)  # Starts with a label twice.
    label_lengths, lengths = tf.constant([5, 2, 0, 3]), tf.constant([12, 12, 7, 9])

    def gradient(loss):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            losses = loss()
        return losses, tape.gradient(losses, logits)

    ours = tf.function(
        lambda: gradient(
            lambda: ctc_ops.ctc_loss_v2(labels, logits, label_lengths, lengths, blank_index=0)
        ),
        jit_compile=jit_compile,
    )()
    theirs = gradient(lambda: tf.nn.ctc_loss(labels, logits, label_lengths, lengths, blank_index=0))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_the_gradient_of_log_probabilities_is_minus_the_posterior():
    """Of labels that leave one alignment, which has all the posterior."""
    data = tf.constant(LOG_PROBABILITIES[:2, :1])
    with tf.GradientTape() as tape:
        tape.watch(data)
        loss = ctc_ops.ctc_loss_with_log_probs([[1, 2]], data, [2], [2], blank_index=0)
    np.testing.assert_allclose(tape.gradient(loss, data), [[[0, -1, 0]], [[0, 0, -1]]], atol=1e-6)


def test_labels_that_do_not_fit_have_no_gradient():
    data = tf.constant(LOGITS)
    labels = np.ones((BATCH, STEPS), "int32")
    with tf.GradientTape() as tape:
        tape.watch(data)
        losses = ctc_ops.ctc_loss_v2(labels, data, np.full(BATCH, STEPS), LENGTHS, 0)
    assert np.isinf(losses).all()
    np.testing.assert_array_equal(tape.gradient(losses, data), np.zeros_like(LOGITS))


@pytest.mark.parametrize(("loss", "data"), LOSSES.values(), ids=LOSSES.keys())
def test_types_of_the_losses(loss, data):
    arguments = np.ones((BATCH, 1), "int32"), np.ones(BATCH, "int32"), LENGTHS, 0
    for dtype, out_dtype, expected in (
        ("float32", None, "float32"),
        ("float16", None, "float16"),
        ("float16", tf.float32, "float32"),
    ):
        losses = loss(arguments[0], data.astype(dtype), *arguments[1:], out_dtype=out_dtype)
        assert losses.dtype == expected
    with pytest.raises(ValueError, match="not be narrower .* Received: out_dtype=float16, .*32"):
        loss(arguments[0], data, *arguments[1:], out_dtype=tf.float16)


@pytest.mark.fast_cells(2)
@pytest.mark.parametrize("blank", [0, 1, 2, -1])
@pytest.mark.parametrize(
    ("decode", "data"),
    [
        (ctc_ops.ctc_beam_search_decoder, LOGITS),
        (ctc_ops.ctc_beam_search_decoder_with_log_probs, LOG_PROBABILITIES),
    ],
)
def test_decoders_find_the_most_likely_sequences(blank, decode, data):
    costs, lengths, labels = decode(data, LENGTHS, 50, top_paths=3, blank_index=blank)
    assert (costs.shape, lengths.shape) == ((BATCH, 3), (BATCH, 3))
    assert labels.shape == (BATCH, 3, STEPS)
    assert (costs.dtype, lengths.dtype, labels.dtype) == ("float32", "int32", "int32")
    blank %= CLASSES
    for sample in range(BATCH):
        best = sorted(probabilities(sample, blank).items(), key=lambda item: -item[1])[:3]
        np.testing.assert_allclose(costs[sample], [-np.log(value) for _, value in best], rtol=1e-5)
        for path, (sequence, _) in enumerate(best):
            padded = [*sequence, *[blank] * (STEPS - len(sequence))]
            np.testing.assert_array_equal(labels[sample, path], padded)
            assert int(lengths[sample, path]) == len(sequence)


def test_the_identity_of_tensors_plays_no_part():
    lengths = np.full(LOGITS.shape[1], LOGITS.shape[0])
    found = ctc_ops.ctc_beam_search_decoder(LOGITS, lengths, 4)
    tf.compat.v1.disable_tensor_equality()  # As tf.disable_v2_behavior does.
    try:
        again = ctc_ops.ctc_beam_search_decoder(LOGITS, lengths, 4)
    finally:
        tf.compat.v1.enable_tensor_equality()
    for one, other in zip(found, again, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("data", "blank"), [(LOGITS, CLASSES), (LOGITS, -2), (LOGITS[0], 0)])
def test_the_blank_and_the_rank_are_checked(data, blank):
    message = rf"shape \[steps, batch, classes\], and blank_index .*Received: blank_index={blank}"
    with pytest.raises(ValueError, match=message):
        ctc_ops.ctc_loss_v2(np.ones((BATCH, 1)), data, LENGTHS, LENGTHS, blank)
    with pytest.raises(ValueError, match=message):
        ctc_ops.ctc_beam_search_decoder(data, LENGTHS, blank_index=blank)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.slow
def test_a_wide_beam_finds_what_that_of_tensorflow_finds(jit_compile):
    random = np.random.default_rng(7)
    logits = tf.constant(3 * random.normal(size=(12, 5, 6)), tf.float32)
    lengths = tf.constant([12, 9, 1, 12, 5])
    decode = tf.function(
        lambda: ctc_ops.ctc_beam_search_decoder(logits, lengths, beam_width=150, top_paths=2),
        jit_compile=jit_compile,
    )
    costs, _, labels = decode()
    paths, log_probabilities = tf.nn.ctc_beam_search_decoder(logits, lengths, 150, 2)
    np.testing.assert_allclose(costs, -log_probabilities, rtol=1e-4, atol=1e-5)
    for path, expected in enumerate(paths):
        dense = tf.sparse.to_dense(tf.sparse.reset_shape(expected, [5, 12]), default_value=5)
        np.testing.assert_array_equal(labels[:, path], dense)
