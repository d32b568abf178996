"""The trace of a step that makes the variables of a model of tf_keras, and runs nothing."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator

import tensorflow as tf
import tf_keras

from ipu_tf.internals.structures import Gradient
from ipu_tf.internals.tf_keras import is_of_script
from ipu_tf.keras.adapters.models import Weight, replaced_methods
from ipu_tf.keras.options import GradientAccumulationOptions
from ipu_tf.keras.training_state import StatefulModel


@contextlib.contextmanager
def making_variables(
    model: StatefulModel, optimizers: Iterable[tf_keras.optimizers.Optimizer]
) -> Iterator[None]:
    """Gives optimizers of scripts gradients of the accumulators' types, as an update does.

    All others take those of weights.
    """
    state = model.ipu_training_state
    accumulation = (
        state.pipelining.accumulation if state.may_pipeline(model) else state.accumulation
    )
    with contextlib.ExitStack() as stack:
        if accumulation.dtype is not None:
            for optimizer in optimizers:
                if is_of_script(optimizer, "apply_gradients"):
                    stack.enter_context(_given_sums(optimizer, accumulation))
        yield


def _given_sums(
    optimizer: tf_keras.optimizers.Optimizer, accumulation: GradientAccumulationOptions
) -> contextlib.AbstractContextManager[None]:
    stock = optimizer.apply_gradients

    @functools.wraps(stock)
    def apply_gradients(
        grads_and_vars: Iterable[tuple[Gradient, Weight]], *args: object, **kwargs: object
    ) -> object:
        pairs = [
            (None if gradient is None else tf.cast(gradient, accumulation.dtype_of(weight)), weight)
            for gradient, weight in grads_and_vars
        ]
        return stock(pairs, *args, **kwargs)

    return replaced_methods(optimizer, apply_gradients=apply_gradients)
