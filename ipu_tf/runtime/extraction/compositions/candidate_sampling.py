"""Draws classes for losses that compare with a few classes only.

The classes have the distribution of TensorFlow's samplers, but are others.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ipu_tf.ops.functions import candidate_losses
from ipu_tf.runtime.extraction.compositions.resizing import CompositionAttributes


def uniform(attributes: CompositionAttributes, true_classes: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """Returns the results of UniformCandidateSampler."""
    classes = attributes["range_max"]
    return _sampled(np.full(classes, 1 / classes, np.float32), attributes, true_classes)


def log_uniform(
    attributes: CompositionAttributes, true_classes: tf.Tensor
) -> tuple[tf.Tensor, ...]:
    """Returns the results of LogUniformCandidateSampler."""
    shares = candidate_losses.log_uniform_shares(attributes["range_max"])
    return _sampled(shares, attributes, true_classes)


def _sampled(
    shares: np.ndarray, attributes: CompositionAttributes, true_classes: tf.Tensor
) -> tuple[tf.Tensor, ...]:
    count = attributes["num_sampled"]
    if attributes["unique"]:
        samples = candidate_losses.sampled_without_repetition(shares, true_classes, count)
    else:
        ends = tf.constant(np.cumsum(shares)[:-1], tf.float32)
        sampled = tf.searchsorted(ends, tf.random.uniform([count]), side="right")
        counts = tf.constant(shares * count, tf.float32)
        samples = sampled, tf.gather(counts, true_classes), tf.gather(counts, sampled)
    sampled, of_labels, of_sampled = samples
    return tf.cast(sampled, tf.int64), of_labels, of_sampled
