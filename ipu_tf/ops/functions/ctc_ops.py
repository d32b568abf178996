"""Connectionist temporal classification: losses and decoders (Graves et al., 2006)."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_tf.ops.functions import ctc_beam_search
from ipu_tf.ops.functions.ctc_beam_search import IMPOSSIBLE

Decoded = tuple[tf.Tensor, tf.Tensor, tf.Tensor]


@tf.autograph.experimental.do_not_convert
def ctc_loss_v2(
    labels: tf.Tensor,
    logits: tf.Tensor,
    label_length: tf.Tensor,
    logit_length: tf.Tensor,
    blank_index: int,
    out_dtype: tf.DType | str | None = None,
    name: str | None = None,
) -> tf.Tensor:
    """Returns the CTC losses of logits; see `ctc_loss_with_log_probs`."""
    logits = tf.convert_to_tensor(logits)
    _check_out_dtype("ctc_loss_v2", logits, out_dtype)
    log_probs = tf.nn.log_softmax(tf.cast(logits, tf.float32))
    losses = ctc_loss_with_log_probs(
        labels, log_probs, label_length, logit_length, blank_index, name=name
    )
    return tf.cast(losses, out_dtype or logits.dtype)


@tf.autograph.experimental.do_not_convert
def ctc_loss_with_log_probs(
    labels: tf.Tensor,
    data: tf.Tensor,
    label_length: tf.Tensor,
    data_length: tf.Tensor,
    blank_index: int,
    out_dtype: tf.DType | str | None = None,
    name: str | None = None,
) -> tf.Tensor:
    """Returns the negative log probabilities of sequences of labels, in float32.

    Args:
        labels: Integers of shape [batch, labels]; those beyond the length of a sequence are not
            read.
        data: Logarithms of probabilities, of shape [steps, batch, classes].
        label_length: Number of labels of each sample, of shape [batch].
        data_length: Number of steps of each sample, of shape [batch].
        blank_index: The class of the blank label.
        out_dtype: Dtype of the losses, that of `data` if None.
        name: Name scope of the loss.

    Returns:
        Losses of shape [batch], infinite for labels that do not fit into the steps.

    Raises:
        ValueError: The data have no static rank of 3, `blank_index` is not a class, or the dtype of
            the losses is narrower than that of the data.
    """
    data = tf.convert_to_tensor(data)
    _check_data("ctc_loss_with_log_probs", data, blank_index)
    _check_out_dtype("ctc_loss_with_log_probs", data, out_dtype)
    labels, label_length, data_length = (
        tf.cast(x, tf.int32) for x in (labels, label_length, data_length)
    )
    with tf.name_scope(name or "ctc_loss"):
        log_probs = tf.cast(data, tf.float32)
        losses = _losses(labels, log_probs, label_length, data_length, blank_index)
        return tf.cast(losses, out_dtype or data.dtype)


@tf.autograph.experimental.do_not_convert
def ctc_beam_search_decoder(
    logits: tf.Tensor,
    logits_lengths: tf.Tensor,
    beam_width: int = 100,
    top_paths: int = 1,
    blank_index: int = -1,
    name: str | None = None,
) -> Decoded:
    """Returns the most likely sequences of labels, found by a beam search.

    Args:
        logits: Logits of shape [steps, batch, classes].
        logits_lengths: Number of steps of each sample, of shape [batch].
        beam_width: Number of sequences that the search keeps at a step.
        top_paths: Number of sequences that it returns.
        blank_index: The class of the blank label; -1 is the last one.
        name: Name scope of the search.

    Returns:
        The sequences' negative log probabilities, float32 of shape [batch, paths]; their
        lengths, int32 of shape [batch, paths]; the labels, int32 of shape [batch, paths, steps],
        blank beyond the length of a sequence. The most likely one comes first.

    Raises:
        ValueError: The logits have no static rank of 3, or `blank_index` is not a class.
    """
    logits = tf.convert_to_tensor(logits)
    classes = logits.shape[-1] if logits.shape.rank == 3 else 0
    blank = blank_index % classes if classes and blank_index == -1 else blank_index
    _check_data("ctc_beam_search_decoder", logits, blank)
    with tf.name_scope(name or "ctc_beam_search_decoder"):
        log_probs = tf.nn.log_softmax(tf.cast(logits, tf.float32))
        beams = ctc_beam_search.search(
            log_probs, tf.cast(logits_lengths, tf.int32), beam_width, blank
        )
        labels = beams.labels[:, :top_paths]
        labels = tf.where(labels >= 0, labels, blank)
        return -beams.total[:, :top_paths], beams.lengths[:, :top_paths], labels


@tf.autograph.experimental.do_not_convert
def ctc_beam_search_decoder_with_log_probs(
    log_probs: tf.Tensor,
    input_lengths: tf.Tensor,
    beam_width: int = 100,
    top_paths: int = 1,
    blank_index: int = -1,
    name: str | None = None,
) -> Decoded:
    """Returns the most likely sequences of labels; see `ctc_beam_search_decoder`.

    Args:
        log_probs: Logarithms of probabilities, of shape [steps, batch, classes].
        input_lengths: Number of steps of each sample, of shape [batch].
        beam_width: Number of sequences that the search keeps at a step.
        top_paths: Number of sequences that it returns.
        blank_index: The class of the blank label; -1 is the last one.
        name: Name scope of the search.
    """
    # The logarithms of probabilities are logits of these probabilities.
    return ctc_beam_search_decoder(
        log_probs, input_lengths, beam_width, top_paths, blank_index, name
    )


def _losses(
    labels: tf.Tensor,
    log_probs: tf.Tensor,
    label_length: tf.Tensor,
    data_length: tf.Tensor,
    blank: int,
) -> tf.Tensor:
    """Returns the losses by the forward recursion, section 4.1 of the paper."""
    states = _states(labels, label_length, blank)
    two_before = tf.pad(states[:, :-2], [[0, 0], [2, 0]], constant_values=blank)
    # The blank between two different labels may be left out.
    may_skip = tf.logical_and(tf.not_equal(states, blank), tf.not_equal(states, two_before))

    def step(alpha: tf.Tensor, inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        index, log_probs_of_step = inputs
        skips = tf.where(may_skip, _shift(alpha, 2), IMPOSSIBLE)
        ways = tf.stack([alpha, _shift(alpha, 1), skips])
        alpha_of_step = tf.reduce_logsumexp(ways, axis=0)
        alpha_of_step = alpha_of_step + tf.gather(log_probs_of_step, states, batch_dims=1)
        return tf.where((index < data_length)[:, tf.newaxis], alpha_of_step, alpha)

    # As if in the first blank before the first step, which leads to that blank or the first label.
    start = tf.one_hot(tf.zeros_like(label_length), states.shape[1], 0.0, IMPOSSIBLE)
    alpha = tf.foldl(step, (tf.range(log_probs.shape[0]), log_probs), initializer=start)
    last_label = tf.where(
        label_length > 0,
        tf.gather(alpha, tf.maximum(2 * label_length - 1, 0), batch_dims=1),
        IMPOSSIBLE,
    )
    last_blank = tf.gather(alpha, 2 * label_length, batch_dims=1)
    losses = -tf.reduce_logsumexp(tf.stack([last_label, last_blank]), axis=0)
    return tf.where(losses < -IMPOSSIBLE / 2, losses, float("inf"))


def _states(labels: tf.Tensor, label_length: tf.Tensor, blank: int) -> tf.Tensor:
    """Returns labels with blanks before, between and after them, [batch, 2 * labels + 1]."""
    count = labels.shape[1]
    labels_within_length = tf.where(tf.sequence_mask(label_length, count), labels, blank)
    pairs = tf.stack([tf.fill(tf.shape(labels_within_length), blank), labels_within_length], axis=2)
    states = tf.pad(tf.reshape(pairs, [-1, 2 * count]), [[0, 0], [0, 1]], constant_values=blank)
    return tf.ensure_shape(states, [labels.shape[0], 2 * count + 1])


def _shift(alpha: tf.Tensor, by: int) -> tf.Tensor:
    """Returns for each state the value `by` states before it."""
    return tf.pad(alpha[:, :-by], [[0, 0], [by, 0]], constant_values=IMPOSSIBLE)


def _check_data(op: str, data: tf.Tensor, blank_index: int) -> None:
    if data.shape.rank != 3 or not 0 <= blank_index < (data.shape[-1] or 0):
        raise ValueError(
            f"{op}: the data must have shape [steps, batch, classes], and blank_index be one of "
            f"the classes. Received: blank_index={blank_index}, data of shape {data.shape}."
        )


def _check_out_dtype(op: str, data: tf.Tensor, out_dtype: Any) -> None:
    if out_dtype is not None and tf.as_dtype(out_dtype).size < data.dtype.size:
        raise ValueError(
            f"{op}: out_dtype must not be narrower than the data; tf.cast the losses. "
            f"Received: out_dtype={tf.as_dtype(out_dtype).name}, data of {data.dtype.name}."
        )
