"""The moments of a gradient that Adam and LAMB keep (Kingma and Ba, 2015, Algorithm 1)."""

from __future__ import annotations

from typing import Protocol

import tensorflow as tf

from ipu_tf.internals.keras_optimizers import Variable
from ipu_tf.keras.optimizers.ipu_optimizer_base import dense

Pair = tuple[tf.Tensor, tf.Tensor]


class OptimizerWithMoments(Protocol):
    """An optimizer of either Keras that keeps two moments of gradients.

    Attributes:
        beta_1: Decay of the first moment.
        beta_2: Decay of the second moment.
        debiasing: Whether the moments that an update takes, not the slots, are corrected for their
            start at zero.
        iterations: The number of updates so far.
    """

    beta_1: float
    beta_2: float
    debiasing: bool
    iterations: tf.Variable

    def get_slot(self, var: Variable, slot_name: str) -> Variable:
        """Returns a slot of a variable."""

    def assign(self, variable: Variable, value: tf.Tensor) -> None:
        """Sets a variable."""


def next_moments(
    optimizer: OptimizerWithMoments,
    gradient: tf.Tensor | tf.IndexedSlices,
    variable: Variable,
    dtype: tf.DType,
) -> Pair:
    """Returns the moments of a variable after one more step, and stores them in its slots.

    Args:
        optimizer: An optimizer with slots "m" and "v".
        gradient: The gradient of the variable.
        variable: The variable.
        dtype: Dtype of the arithmetic and of the results.
    """
    betas = optimizer.beta_1, optimizer.beta_2
    slots = optimizer.get_slot(variable, "m"), optimizer.get_slot(variable, "v")
    moments = moving_averages(dense(gradient), slots, betas, dtype)
    for slot, moment in zip(slots, moments, strict=True):
        optimizer.assign(slot, moment)
    if not optimizer.debiasing:
        return moments
    return corrected(moments, betas, optimizer.iterations + 1, dtype)


def moving_averages(
    gradient: tf.Tensor,
    slots: tuple[Variable, Variable],
    betas: tuple[float, float],
    dtype: tf.DType,
) -> Pair:
    """Returns the moving averages of a gradient and of its square after one more step.

    Args:
        gradient: The gradient of a variable.
        slots: Variables that hold both averages so far, of the variable's shape.
        betas: The decay of each average.
        dtype: Dtype of the arithmetic and of the results.
    """
    gradient = tf.cast(gradient, dtype)
    first, second = (
        tf.cast(tf.convert_to_tensor(slot), dtype) * tf.cast(beta, dtype)
        + value * tf.cast(1.0 - beta, dtype)
        for slot, beta, value in zip(slots, betas, (gradient, tf.square(gradient)), strict=True)
    )
    return first, second


def corrected(averages: Pair, betas: tuple[float, float], step: tf.Tensor, dtype: tf.DType) -> Pair:
    """Returns moving averages corrected for their start at zero.

    Args:
        averages: The averages after `step` steps.
        betas: The decay of each average.
        step: Number of steps, from 1.
        dtype: Dtype of the averages.
    """
    # In float16, powers of a number near 1 lose significant digits, whatever the averages' dtype.
    count = tf.cast(step, tf.float32)
    first, second = (
        average / tf.cast(1.0 - tf.pow(tf.cast(beta, tf.float32), count), dtype)
        for average, beta in zip(averages, betas, strict=True)
    )
    return first, second
