"""A beam search over sequences of labels, in ops of static shape as programs require."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

# The logarithm of probability zero: its exponential is 0 beside any other's, and unlike minus
# infinity it can be added and subtracted.
IMPOSSIBLE = -1e30


class Beams(NamedTuple):
    """The sequences that a search keeps for every sample of a batch.

    Attributes:
        labels: Labels, -1 beyond the length, int32 of shape [batch, width, steps].
        lengths: Number of labels, int32 of shape [batch, width].
        blank: Logarithms of the probabilities of ending in a blank, [batch, width].
        label: Logarithms of the probabilities of ending in the last label, [batch, width].
    """

    labels: tf.Tensor
    lengths: tf.Tensor
    blank: tf.Tensor
    label: tf.Tensor

    @property
    def total(self) -> tf.Tensor:
        """Logarithms of the probabilities of the sequences, [batch, width]."""
        return log_sum(self.blank, self.label)

    @property
    def last(self) -> tf.Tensor:
        """The last labels, -1 of empty sequences, [batch, width]."""
        return tf.reduce_max(tf.where(self._is_last, self.labels, -1), axis=2)

    @property
    def trimmed(self) -> tf.Tensor:
        """The labels without the last ones."""
        return tf.where(self._is_last, -1, self.labels)

    @property
    def _is_last(self) -> tf.Tensor:
        return tf.equal(tf.range(self.labels.shape[2]), self.lengths[..., tf.newaxis] - 1)


def log_sum(*logarithms: tf.Tensor) -> tf.Tensor:
    """Returns the logarithm of the sum of numbers, given their logarithms."""
    return tf.reduce_logsumexp(tf.stack(logarithms), axis=0)


def search(log_probs: tf.Tensor, lengths: tf.Tensor, width: int, blank: int) -> Beams:
    """Returns the most likely sequences of labels, the best one first.

    Args:
        log_probs: Logarithms of probabilities, float32 of shape [steps, batch, classes].
        lengths: Number of steps of each sample, int32 of shape [batch].
        width: Number of sequences that the search keeps at a step.
        blank: The class of the blank label.
    """
    steps, batch, _ = log_probs.shape
    first = tf.one_hot(tf.zeros(batch, tf.int32), width, 0.0, IMPOSSIBLE)
    start = Beams(
        labels=tf.fill([batch, width, steps], -1),
        lengths=tf.zeros([batch, width], tf.int32),
        blank=first,
        label=tf.fill([batch, width], IMPOSSIBLE),
    )

    def step(beams: Beams, inputs: tuple[tf.Tensor, tf.Tensor]) -> Beams:
        index, row = inputs
        after = _advance(Beams(*beams), row, blank)
        runs = index < lengths
        return Beams(
            *(
                tf.where(tf.reshape(runs, [-1, *[1] * (new.shape.rank - 1)]), new, old)
                for new, old in zip(after, beams, strict=True)
            )
        )

    beams = Beams(*tf.foldl(step, (tf.range(steps), log_probs), initializer=start))
    order = tf.math.top_k(beams.total, width).indices
    return Beams(*(tf.gather(values, order, batch_dims=1) for values in beams))


def _advance(beams: Beams, log_probs: tf.Tensor, blank: int) -> Beams:
    """Returns the sequences after a step with log probabilities of shape [batch, classes]."""
    width, classes = beams.lengths.shape[1], log_probs.shape[1]
    labels = tf.range(classes)
    total, last = beams.total, beams.last
    # A sequence stays the same after a blank, or after a repetition of its last label.
    stay_blank = total + log_probs[:, blank, tf.newaxis]
    again = tf.gather(log_probs, tf.maximum(last, 0), batch_dims=1)
    stay_label = tf.where(last >= 0, beams.label + again, IMPOSSIBLE)
    # It grows by another label, or by the same one after a blank.
    is_last = tf.equal(labels, last[..., tf.newaxis])
    extension = (
        tf.where(is_last, beams.blank[..., tf.newaxis], total[..., tf.newaxis])
        + log_probs[:, tf.newaxis]
    )
    extension = tf.where(tf.equal(labels, blank), IMPOSSIBLE, extension)

    # If it grows into another kept sequence, both become one.
    same = tf.reduce_all(
        tf.equal(beams.trimmed[:, tf.newaxis], beams.labels[:, :, tf.newaxis]), axis=3
    )
    alive = tf.logical_and(last >= 0, total > IMPOSSIBLE / 2)
    is_child = tf.logical_and(same, alive[:, tf.newaxis])
    into = tf.gather(extension, tf.maximum(last, 0), axis=2, batch_dims=1)
    way_in = tf.reduce_logsumexp(tf.where(is_child, into, IMPOSSIBLE), axis=1)
    stay_label = log_sum(stay_label, way_in)
    kept_already = tf.reduce_any(
        tf.logical_and(is_child[..., tf.newaxis], is_last[:, tf.newaxis]),
        axis=2,
    )
    extension = tf.reshape(tf.where(kept_already, IMPOSSIBLE, extension), [-1, width * classes])

    candidates = tf.concat([log_sum(stay_blank, stay_label), extension], axis=1)
    values, indices = tf.math.top_k(candidates, width)
    grows = indices >= width
    parent = tf.where(grows, (indices - width) // classes, indices)
    of_parent = Beams(
        *(
            tf.gather(each, parent, batch_dims=1)
            for each in (beams.labels, beams.lengths, stay_blank, stay_label)
        )
    )
    new = tf.where(grows, (indices - width) % classes, -1)[..., tf.newaxis]
    here = tf.equal(tf.range(beams.labels.shape[2]), of_parent.lengths[..., tf.newaxis])
    return Beams(
        labels=tf.where(tf.logical_and(here, new >= 0), new, of_parent.labels),
        lengths=of_parent.lengths + tf.cast(grows, tf.int32),
        blank=tf.where(grows, IMPOSSIBLE, of_parent.blank),
        label=tf.where(grows, values, of_parent.label),
    )
