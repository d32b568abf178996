"""`LossScaleOptimizer` of tf_keras, and with it `mixed_float16`, under an IPU strategy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf
import tf_keras

from ipu_tf.internals.structures import Gradient
from ipu_tf.keras.optimizers.als_gradient_accumulation_optimizer import ALSGradientAccumulationBody
from ipu_tf.keras.optimizers.als_loss_scaling import ALSOptimizerBody
from ipu_tf.runtime.tracing import hooks
from ipu_tf.strategy import IPUStrategyV1


def supporting_strategies(stock: Callable[[], bool]) -> Callable[[], bool]:
    """Makes IPU strategies scale losses: tf_keras knows its own strategies alone."""

    def supports() -> bool:
        return isinstance(tf.distribute.get_strategy(), IPUStrategyV1) or stock()

    return supports


def scales(optimizer: object) -> bool:
    """Returns whether an optimizer scales losses, and skips updates that are not finite.

    Those with automatic loss scaling unscale gradients themselves, and skip none.
    """
    is_of_tf_keras = isinstance(optimizer, tf_keras.mixed_precision.LossScaleOptimizer)
    unscales = isinstance(optimizer, ALSOptimizerBody | ALSGradientAccumulationBody)
    return is_of_tf_keras and not unscales


def unscaled(
    optimizer: tf_keras.mixed_precision.LossScaleOptimizer, gradients: Sequence[Gradient]
) -> list[Gradient]:
    """Returns the gradients of a scaled loss without the scale.

    The optimizer skips an update if one is not finite; searches for its cause learn the scale.

    Args:
        optimizer: A `LossScaleOptimizer`.
        gradients: The gradients, None for missing ones.
    """
    tracer = hooks.active()
    if tracer is not None:
        tracer.note_loss_scale(optimizer.loss_scale, gradients)
        tracer.checks_scaled = True
    results: list[Gradient] = optimizer.get_unscaled_gradients(gradients)
    return results
