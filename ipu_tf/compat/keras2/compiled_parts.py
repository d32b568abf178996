"""The loss and the metrics of `compile`, as the steps of scripts call them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

import keras

from ipu_tf.compat.keras2.spelling import Notify, Spelling
from ipu_tf.internals import patches
from ipu_tf.internals.keras_training import (
    compiled_loss_of,
    compiled_metrics_of,
    loss_tracker_of,
)
from ipu_tf.internals.patches import Wrap


class CompiledLoss:
    """The loss of a model, which keeps the mean of its values.

    Args:
        model: A compiled model.
        notify: Logs the use.
    """

    def __init__(self, model: keras.Model, notify: Notify) -> None:
        self._model = model
        self._notify = notify

    def __call__(
        self,
        y_true: Any,
        y_pred: Any,
        sample_weight: Any = None,
        regularization_losses: Sequence[Any] | None = None,
    ) -> Any:
        """Returns the loss of a batch, and counts it in the mean that the logs show.

        Args:
            y_true: Targets.
            y_pred: Outputs.
            sample_weight: Weights of samples or of outputs.
            regularization_losses: Further terms, such as `model.losses`.
        """
        self._notify()
        loss = compiled_loss_of(self._model)
        terms = [] if loss is None else [loss(y_true, y_pred, sample_weight)]
        terms += [keras.ops.sum(term) for term in regularization_losses or ()]
        total = sum(terms[1:], start=terms[0]) if terms else keras.ops.zeros(())
        samples = keras.ops.shape(keras.tree.flatten(y_pred)[0])[0]
        loss_tracker_of(self._model).update_state(total, sample_weight=samples)
        return total

    @property
    def metrics(self) -> list[keras.Metric]:
        """The means of the loss, and of the losses of outputs."""
        loss = compiled_loss_of(self._model)
        return [loss_tracker_of(self._model), *(() if loss is None else loss.metrics)]


class CompiledMetrics:
    """The metrics of a model.

    Args:
        model: A compiled model.
        notify: Logs the use.
    """

    def __init__(self, model: keras.Model, notify: Notify) -> None:
        self._metrics = compiled_metrics_of(model)
        self._notify = notify

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Updates the metrics of `compile`, and no others."""
        self._notify()
        if self._metrics is not None:
            self._metrics.update_state(y_true, y_pred, sample_weight)

    def reset_state(self) -> None:
        """Resets the metrics of `compile`."""
        if self._metrics is not None:
            self._metrics.reset_state()

    @property
    def metrics(self) -> list[keras.Metric]:
        """The metrics of `compile`."""
        return [] if self._metrics is None else list(self._metrics.metrics)


def _property_of(part: type) -> Callable[[Notify], Wrap]:
    """Returns the factory of a property of models that gives a part of what they compile."""
    return lambda notify: lambda stock: property(lambda model: part(model, notify))


SPELLINGS = (
    Spelling(
        name="`self.compiled_loss(y, y_pred, regularization_losses=self.losses)`, "
        "`self.compiled_metrics.update_state(y, y_pred)` in a `train_step` or a `test_step`",
        keras_2="The loss of `compile` with the terms that the call gives, whose mean the logs "
        "showed; the metrics of `compile`.",
        here="They are; Keras 3 alone counts the outputs of the model as values of the loss, and "
        "adds `model.losses` in any case.",
        wraps=MappingProxyType(
            {
                patches.COMPILED_LOSSES: _property_of(CompiledLoss),
                patches.COMPILED_METRICS: _property_of(CompiledMetrics),
            }
        ),
    ),
)
