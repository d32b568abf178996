"""The loss and the metrics of `compile`, as the steps of scripts call them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

import keras

from ipu_tf.compat.spellings.spelling import Notify, Spelling
from ipu_tf.internals.keras_compiled import CompiledParts
from ipu_tf.internals.patches import Patch, Wrap

_COMPILED_LOSSES = Patch(keras.Model, "compiled_loss", "steps of scripts count its values")
_COMPILED_METRICS = Patch(
    keras.Model, "compiled_metrics", "steps of scripts update the metrics of `compile` alone"
)


class CompiledLoss:
    """The loss of a model, which keeps the mean of its values.

    Args:
        model: A compiled model.
        notify: Logs the use.
    """

    def __init__(self, model: keras.Model, notify: Notify) -> None:
        self._parts = CompiledParts(model)
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
        of_model = self._parts.has_loss
        terms = [self._parts.loss(y_true, y_pred, sample_weight)] if of_model else []
        terms += [keras.ops.sum(term) for term in regularization_losses or ()]
        total = sum(terms[1:], start=terms[0]) if terms else keras.ops.zeros(())
        samples = keras.ops.shape(keras.tree.flatten(y_pred)[0])[0]
        self._parts.loss_metric.update_state(total, sample_weight=samples)
        return total

    @property
    def metrics(self) -> list[keras.Metric]:
        """The means of the loss, and of the losses of outputs."""
        return [self._parts.loss_metric, *self._parts.output_metrics]

    @property
    def _loss_metric(self) -> keras.Metric:
        return self._parts.loss_metric

    @_loss_metric.setter
    def _loss_metric(self, metric: keras.Metric) -> None:
        self._parts.loss_metric = metric

    @property
    def _per_output_metrics(self) -> list[keras.Metric]:
        return self._parts.output_metrics

    @_per_output_metrics.setter
    def _per_output_metrics(self, metrics: Sequence[keras.Metric]) -> None:
        """Leaves Keras 3 its own: means of the losses in `keras.backend.floatx()`."""

    @property
    def _output_names(self) -> list[str]:
        return self._parts.output_names

    @property
    def _losses(self) -> Any:
        return self._parts.losses

    @property
    def _user_losses(self) -> Any:
        return self._parts.user_loss

    @property
    def _loss_weights(self) -> Any:
        return self._parts.loss_weights

    _user_loss_weights = _loss_weights


class CompiledMetrics:
    """The metrics of a model.

    Args:
        model: A compiled model.
        notify: Logs the use.
    """

    def __init__(self, model: keras.Model, notify: Notify) -> None:
        self._parts = CompiledParts(model)
        self._notify = notify

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Updates the metrics of `compile`, and no others."""
        self._notify()
        if self._parts.has_metrics:
            self._parts.update_metrics(y_true, y_pred, sample_weight)

    def reset_state(self) -> None:
        """Resets the metrics of `compile`."""
        for metric in self.metrics:
            metric.reset_state()

    @property
    def metrics(self) -> list[keras.Metric]:
        """The metrics of `compile`, once they are built."""
        return self._parts.metrics

    @property
    def _metrics(self) -> Any:
        return self._parts.user_metrics

    @_metrics.setter
    def _metrics(self, metrics: Any) -> None:
        self._parts.user_metrics = metrics

    @property
    def _weighted_metrics(self) -> Any:
        return self._parts.user_weighted_metrics

    @_weighted_metrics.setter
    def _weighted_metrics(self, metrics: Any) -> None:
        self._parts.user_weighted_metrics = metrics

    _user_metrics = _metrics
    _user_weighted_metrics = _weighted_metrics


def _property_of(part: type) -> Callable[[Notify], Wrap]:
    """Returns the factory of a property that gives a part of what models compile, None before."""

    def of_notify(notify: Notify) -> Wrap:
        return lambda stock: property(lambda model: part(model, notify) if model.compiled else None)

    return of_notify


SPELLINGS = (
    Spelling(
        name="`self.compiled_loss(y, y_pred, regularization_losses=self.losses)`, "
        "`self.compiled_metrics.update_state(y, y_pred)` in a `train_step` or a `test_step`",
        keras_2="The loss of `compile` with the terms that the call gives, whose mean the logs "
        "showed; the metrics of `compile`.",
        here="They are; Keras 3 alone counts the outputs of the model as values of the loss, and "
        "adds `model.losses` in any case. They have the attributes `_losses`, `_loss_weights`, "
        "`_loss_metric`, `_metrics`, `_weighted_metrics`; means of the losses of outputs that a "
        "script sets are left out, because those here add up in `keras.backend.floatx()`.",
        wraps=MappingProxyType(
            {
                _COMPILED_LOSSES: _property_of(CompiledLoss),
                _COMPILED_METRICS: _property_of(CompiledMetrics),
            }
        ),
    ),
)
