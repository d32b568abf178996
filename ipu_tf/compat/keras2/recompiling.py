"""Models that are compiled again, or without a loss."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.compat.keras2 import patches
from ipu_tf.compat.spellings.spelling import Call, Notify, Spelling
from ipu_tf.internals.keras import KerasTrainer
from ipu_tf.internals.keras_training import added_losses_of, forget_loss_and_metrics, has_loss
from ipu_tf.internals.patches import Patch, Wrap

_LOSS_COMPUTATION = Patch(KerasTrainer, "compute_loss", "models are evaluated without a loss")


def _forgetting(call: Call) -> bool:
    """Removes the loss and the metrics of an earlier `compile`, which this one replaces."""
    if not getattr(call.owner, "compiled", False):
        return False
    had_loss = has_loss(call.owner)
    forget_loss_and_metrics(call.owner)
    return had_loss and len(call.args) < 2 and call.kwargs.get("loss") is None


def _zero_without_loss(notify: Notify) -> Wrap:
    """Returns the factory of `compute_loss`.

    A model that is evaluated without a loss has a loss of 0, and data without targets have the
    losses of layers alone.
    """

    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def compute_loss(
            model: keras.Model,
            x: Any = None,
            y: Any = None,
            y_pred: Any = None,
            sample_weight: Any = None,
            training: bool = True,
        ) -> Any:
            added = added_losses_of(model) if y is None and has_loss(model) else []
            if not added and (training or has_loss(model)):
                return stock(model, x, y, y_pred, sample_weight, training)
            notify()
            return sum(added, start=tf.zeros(()))

        return compute_loss

    return wrap


SPELLINGS = (
    Spelling(
        name="`compile` again, without the loss or the metrics of before",
        keras_2="The model had what the last `compile` gave.",
        here="The model has what the last `compile` gives; Keras 3 alone keeps the loss and the "
        "metrics of before.",
        rewrites=MappingProxyType({patches.COMPILATION: _forgetting}),
    ),
    Spelling(
        name="`evaluate` of a model without a loss, `fit(x)` with a loss but without targets",
        keras_2="The loss was 0, or the sum of the losses that layers and `add_loss` add.",
        here="It is that; Keras 3 alone refuses it.",
        wraps=MappingProxyType({_LOSS_COMPUTATION: _zero_without_loss}),
    ),
)
