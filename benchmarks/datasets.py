"""The datasets that the benchmarks' models train on."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def endless(samples: Any, batch: int) -> tf.data.Dataset:
    """Batches of arrays of samples, kept in memory, without end.

    Args:
        samples: Arrays of one length, in any structure.
        batch: Samples in a batch; a remainder is left out.
    """
    batches = tf.data.Dataset.from_tensor_slices(samples).batch(batch, drop_remainder=True)
    return untuned(batches.cache().repeat())


def untuned(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """A dataset without automatic tuning, since nothing here needs tuning.

    The tuner waits twice as long each time, and the end of `fit` may have to wait for it: up to as
    long as the training itself took.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
