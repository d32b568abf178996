"""Losses over sampled classes: sampled softmax and noise-contrastive estimation.

Stock TensorFlow samples the classes on the processor, in 64 bits. Here the device samples them, by
the same distribution: class c of C with probability log((c + 2) / (c + 1)) / log(C + 1), without
repetition.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tensorflow as tf

Sampled = tuple[tf.Tensor, tf.Tensor, tf.Tensor]
"""Sampled classes, and the expected counts of true and of sampled classes."""


@tf.autograph.experimental.do_not_convert
def sampled_softmax_loss(
    weights: tf.Tensor,
    biases: tf.Tensor,
    labels: tf.Tensor,
    inputs: tf.Tensor,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Sampled | None = None,
    name: str = "sampled_softmax_loss",
    seed: tf.Tensor | int | None = None,
) -> tf.Tensor:
    """Returns the softmax loss of each sample over its true and some sampled classes.

    Sampled classes that are true ones are left out.

    Args:
        weights: The weights of the classes, of shape [num_classes, features].
        biases: Their biases, of shape [num_classes].
        labels: The true classes, integers of shape [samples, num_true].
        inputs: The features, of shape [samples, features].
        num_sampled: Number of classes to sample for all samples together.
        num_classes: Number of classes.
        num_true: True classes of a sample.
        sampled_values: Sampled classes and expected counts, as TensorFlow's samplers return them.
        name: Name scope of the operations.
        seed: Seed of the sampling.

    Returns:
        A tensor of shape [samples].

    Raises:
        ValueError: More classes are sampled than there are.
    """
    with tf.name_scope(name):
        logits, targets = _logits(
            weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values,
            seed, leaves_out_hits=True,
        )  # fmt: skip
        targets = tf.stop_gradient(targets)
        return tf.nn.softmax_cross_entropy_with_logits(labels=targets, logits=logits)


@tf.autograph.experimental.do_not_convert
def nce_loss(
    weights: tf.Tensor,
    biases: tf.Tensor,
    labels: tf.Tensor,
    inputs: tf.Tensor,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Sampled | None = None,
    name: str = "nce_loss",
) -> tf.Tensor:
    """Returns the loss of noise-contrastive estimation of each sample.

    Args:
        weights: See `sampled_softmax_loss`, as for all arguments.

    Returns:
        A tensor of shape [samples].

    Raises:
        ValueError: More classes are sampled than there are.
    """
    with tf.name_scope(name):
        logits, targets = _logits(
            weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values,
            None, leaves_out_hits=False,
        )  # fmt: skip
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits)
        return tf.reduce_sum(losses, axis=1)


def _logits(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int,
    sampled_values: Sampled | None,
    seed: Any,
    *,
    leaves_out_hits: bool,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the logits of true and sampled classes, corrected for sampling, and their targets."""
    weights, biases = tf.convert_to_tensor(weights), tf.convert_to_tensor(biases)
    inputs = tf.convert_to_tensor(inputs)
    labels = tf.reshape(tf.cast(labels, tf.int32), [-1, num_true])
    if sampled_values is None:
        shares = log_uniform_shares(num_classes)
        sampled_values = sampled_without_repetition(shares, labels, num_sampled, seed)
    sampled = tf.cast(tf.stop_gradient(sampled_values[0]), tf.int32)
    expected_true, expected_sampled = (
        tf.cast(tf.stop_gradient(counts), inputs.dtype) for counts in sampled_values[1:]
    )
    true_logits = tf.einsum("sf,stf->st", inputs, tf.gather(weights, labels))
    true_logits += tf.gather(biases, labels) - tf.math.log(expected_true)
    sampled_logits = tf.matmul(inputs, tf.gather(weights, sampled), transpose_b=True)
    sampled_logits += tf.gather(biases, sampled) - tf.math.log(expected_sampled)
    if leaves_out_hits:
        hits = tf.reduce_any(tf.equal(labels[:, :, tf.newaxis], sampled), axis=1)
        sampled_logits = tf.where(hits, sampled_logits.dtype.min, sampled_logits)
    targets = [tf.ones_like(true_logits) / num_true, tf.zeros_like(sampled_logits)]
    return tf.concat([true_logits, sampled_logits], 1), tf.concat(targets, 1)


def log_uniform_shares(classes: int) -> np.ndarray:
    """Returns the probability of each class of TensorFlow's log-uniform samplers, float32."""
    numbers = np.arange(classes)
    shares = np.log((numbers + 2) / (numbers + 1)) / math.log(classes + 1)
    return shares.astype(np.float32)


def sampled_without_repetition(
    shares: np.ndarray, labels: tf.Tensor, count: int, seed: tf.Tensor | int | None = None
) -> Sampled:
    """Returns different classes, drawn one after the other from those that are left.

    Args:
        shares: Probability of each class.
        labels: True classes.
        count: Number of classes to draw.
        seed: Seed of the draws.

    Returns:
        The classes, and the expected counts of the labels and of the classes, as TensorFlow's
        samplers return them.

    Raises:
        ValueError: There are fewer classes.
    """
    if count > len(shares):
        raise ValueError(
            f"Only {len(shares)} different classes can be sampled. Received: num_sampled={count}, "
            f"num_classes={len(shares)}."
        )
    probabilities = tf.constant(shares, tf.float32)
    tiny = np.finfo(np.float32).tiny
    noise = tf.random.uniform([len(shares)], minval=tiny, seed=seed)
    # The largest sums of log probability and Gumbel noise are a draw without repetition, in order.
    keys = tf.math.log(probabilities) - tf.math.log(-tf.math.log(noise))
    sampled = tf.math.top_k(keys, count).indices
    tries = _tries(tf.gather(probabilities, sampled), seed)

    def expected(of: tf.Tensor) -> tf.Tensor:
        share = tf.gather(probabilities, of)
        # As TensorFlow's samplers count.
        among_tries = -tf.math.expm1(tries * tf.math.log1p(-share))
        return tf.where(tf.equal(tries, count), share * count, among_tries)

    return sampled, expected(labels), expected(sampled)


def _tries(shares: tf.Tensor, seed: Any) -> tf.Tensor:
    """Returns how many draws with repetition it takes to see the classes of a draw without.

    Between two new classes, draws repeat earlier ones with the probability of all of these.
    """
    repeat_shares = tf.cumsum(shares, exclusive=True)[1:]
    uniform = tf.random.uniform(repeat_shares.shape, minval=np.finfo(np.float32).tiny, seed=seed)
    below_one = tf.clip_by_value(repeat_shares, np.finfo(np.float32).tiny, 1 - 1e-6)
    repeats = tf.floor(tf.math.log(uniform) / tf.math.log(below_one))
    return tf.reduce_sum(repeats) + tf.cast(shares.shape[0], tf.float32)
