"""Runs a step of a model as a program of the device."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from ipu_tf.internals.structures import TensorStructure

Step = Callable[..., TensorStructure]
"""A batch of data to the logs of a step, or to the predictions."""


def run_with(strategy: tf.distribute.Strategy, step: Step) -> Step:
    """Returns a function that runs `step` on a batch as a program of the device."""

    @tf.autograph.experimental.do_not_convert
    def run_step(batch: TensorStructure) -> TensorStructure:
        return strategy.run(step, args=(batch,))

    return run_step
