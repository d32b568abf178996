"""What Keras keeps of `compile`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import keras
import tensorflow as tf

from ipu_tf.internals.keras_training import Metrics, loss_tracker_of
from ipu_tf.internals.structures import TensorStructure

Losses: TypeAlias = (
    "str | Callable[..., tf.Tensor] | Sequence[Losses] | Mapping[str, Losses] | None"
)
"""A loss, by name or as a function or object, or those of the outputs."""

LossWeights: TypeAlias = float | Sequence[float] | Mapping[str, float] | None
"""The weight of a loss, or those of the outputs."""


class CompiledParts:
    """The loss and the metrics of a compiled model, which no public attribute gives.

    Relies on `Trainer._compile_loss`, `Trainer._compile_metrics`, `Trainer._loss_tracker`, and on
    the arguments of `compile` that the first two hold until they are built for a batch.

    Args:
        model: The model.
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._of_loss = model._compile_loss
        self._of_metrics = model._compile_metrics

    @property
    def has_loss(self) -> bool:
        """Whether `compile` got a loss."""
        return self._of_loss is not None

    @property
    def has_metrics(self) -> bool:
        """Whether `compile` got metrics."""
        return self._of_metrics is not None

    def loss(
        self, y_true: TensorStructure, y_pred: TensorStructure, sample_weight: TensorStructure
    ) -> tf.Tensor:
        """Returns the loss of a batch without what layers add."""
        return self._of_loss(y_true, y_pred, sample_weight)

    def update_metrics(
        self, y_true: TensorStructure, y_pred: TensorStructure, sample_weight: TensorStructure
    ) -> None:
        """Adds a batch to the metrics."""
        self._of_metrics.update_state(y_true, y_pred, sample_weight)

    @property
    def loss_metric(self) -> keras.Metric:
        """The mean of the loss."""
        return loss_tracker_of(self._model)

    @loss_metric.setter
    def loss_metric(self, metric: keras.Metric) -> None:
        # As `compile` sets it: no part of the model's own metrics.
        vars(self._model)["_loss_tracker"] = metric

    @property
    def output_metrics(self) -> list[keras.Metric]:
        """The means of the losses of several outputs, once they are built."""
        return list(self._of_loss.metrics) if self.has_loss else []

    @property
    def metrics(self) -> list[keras.Metric]:
        """The metrics of `compile`, once they are built."""
        return list(self._of_metrics.metrics) if self.has_metrics else []

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs."""
        return list((self.has_loss and self._of_loss.output_names) or ())

    @property
    def user_loss(self) -> Losses:
        """The argument `loss` of `compile`."""
        return self._of_loss._user_loss if self.has_loss else None

    @property
    def losses(self) -> Losses:
        """The losses of the outputs, once they are built; before, the argument of `compile`."""
        is_built = self.has_loss and self._of_loss.built
        return [part.loss for part in self._of_loss._flat_losses] if is_built else self.user_loss

    @property
    def loss_weights(self) -> LossWeights:
        """The argument `loss_weights` of `compile`."""
        return self._of_loss._user_loss_weights if self.has_loss else None

    @property
    def user_metrics(self) -> Metrics:
        """The argument `metrics` of `compile`."""
        return self._of_metrics._user_metrics if self.has_metrics else None

    @user_metrics.setter
    def user_metrics(self, metrics: Metrics) -> None:
        self._set("_user_metrics", metrics)

    @property
    def user_weighted_metrics(self) -> Metrics:
        """The argument `weighted_metrics` of `compile`."""
        return self._of_metrics._user_weighted_metrics if self.has_metrics else None

    @user_weighted_metrics.setter
    def user_weighted_metrics(self, metrics: Metrics) -> None:
        self._set("_user_weighted_metrics", metrics)

    def _set(self, name: str, metrics: Metrics) -> None:
        """Sets metrics.

        Raises:
            ValueError: They are built already, or `compile` got none.
        """
        if not self.has_metrics or self._of_metrics.built:
            raise ValueError(
                f"The metrics of model '{self._model.name}' cannot be replaced: it was compiled "
                "without metrics, or it has run a step. Give them to `compile`."
            )
        vars(self._of_metrics)[name] = metrics
