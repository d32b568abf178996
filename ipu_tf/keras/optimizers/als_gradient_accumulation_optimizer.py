"""Automatic loss scaling and gradient accumulation in one optimizer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf

from ipu_tf.gradient_accumulation import GradientAccumulationReductionMethod as Method
from ipu_tf.internals.keras_optimizers import Variable
from ipu_tf.internals.structures import DType, Gradient
from ipu_tf.keras.optimizers.als_loss_scaling import ALSOptimizerBody, CapturedGradients
from ipu_tf.keras.optimizers.attribute_guards import ReadOnly
from ipu_tf.keras.optimizers.gradient_accumulation_optimizer import GradientAccumulationOptimizer
from ipu_tf.keras.optimizers.ipu_optimizer_base import WrapperBody


def _of_als(name: str, doc: str) -> ReadOnly:
    """Returns a read-only attribute that reads an attribute of the `als_optimizer`."""
    return ReadOnly(lambda self: getattr(self.als_optimizer, name), doc=doc)


class ALSGradientAccumulationBody(WrapperBody):
    """The parts of `ALSGradientAccumulationOptimizer` that are the same over any Keras.

    Attributes:
        als_optimizer: Counts and unscales gradients.
    """

    _keras: ClassVar[Any]
    _INNER = "als_optimizer"

    histogram = _of_als("histogram", "Counts of small and of large gradients.")
    normalized_histogram = _of_als("normalized_histogram", "Shares of small and large gradients.")
    loss_scaling_factor = _of_als("loss_scaling_factor", "The factor of the next loss.")
    previous_loss_scaling_factor = _of_als(
        "previous_loss_scaling_factor", "The factor before its last change."
    )
    update_counter = _of_als("update_counter", "Updates since the last one of the factor.")
    update_frequency = _of_als("update_frequency", "See `ALSSettings`.")
    increase_factor = _of_als("increase_factor", "See `ALSSettings`.")
    decrease_factor = _of_als("decrease_factor", "One over `increase_factor`.")
    initial_loss_scaling_factor = _of_als("initial_loss_scaling_factor", "See `ALSSettings`.")
    max_loss_scaling_factor = _of_als("max_loss_scaling_factor", "See `ALSSettings`.")
    accumulate_statistics_over_update_period = _of_als(
        "accumulate_statistics_over_update_period", "See `ALSSettings`."
    )
    ratio_threshold = _of_als("ratio_threshold", "See `ALSSettings`.")
    supports_captured_grads = _of_als("supports_captured_grads", "Always True.")
    captured_grads_only = _of_als("captured_grads_only", "See `ALSSettings`.")
    lpf_alpha = _of_als("lpf_alpha", "See `ALSSettings`.")
    histogram_bin_edge = _of_als("histogram_bin_edge", "See `ALSSettings`.")

    als_optimizer: ALSOptimizerBody

    def __init__(
        self,
        als_optimizer: ALSOptimizerBody,
        num_mini_batches: int,
        offload_weight_update_variables: bool | None = None,
        replicated_optimizer_state_sharding: bool = False,
        dtype: DType | None = None,
        reduction_method: Method | str = Method.SUM,
        name: str = "ALSGradientAccumulationOptimizer",
    ) -> None:
        is_als = isinstance(als_optimizer, ALSOptimizerBody)
        if not (is_als and als_optimizer._keras is self._keras):
            raise ValueError(
                "ALSGradientAccumulationOptimizer can only be used with instances of ALSOptimizer; "
                "for others there is GradientAccumulationOptimizer. "
                f"Received: als_optimizer={als_optimizer!r}."
            )
        self._make_accumulation(
            als_optimizer,
            {
                "num_mini_batches": num_mini_batches,
                "offload_weight_update_variables": offload_weight_update_variables,
                "replicated_optimizer_state_sharding": replicated_optimizer_state_sharding,
                "dtype": dtype,
                "reduction_method": reduction_method,
            },
            name,
        )
        self.als_optimizer = als_optimizer

    def scale_loss(self, loss: tf.Tensor) -> tf.Tensor:
        """Returns a loss times the loss scaling factor, in the loss's dtype."""
        return self.als_optimizer.scale_loss(loss)

    def count_captured(self, captured_grads: CapturedGradients) -> tf.Tensor:
        """Returns counts of captured gradients; see `ALSOptimizer.count_captured`."""
        return self.als_optimizer.count_captured(captured_grads)

    def get_gradients(
        self, loss: tf.Tensor, params: Sequence[Variable | tf.Tensor]
    ) -> list[Gradient]:
        """Returns the gradients of the scaled loss; see `ALSOptimizer.get_gradients`."""
        return self.als_optimizer.get_gradients(loss, params)

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make this optimizer."""
        config = self._config_of_accumulation()
        del config["opt"]
        als_optimizer = self._keras.saving.serialize_keras_object(self.als_optimizer)
        return {**config, "als_optimizer": als_optimizer, "name": self.name}


@keras.saving.register_keras_serializable("ipu_tf")
class ALSGradientAccumulationOptimizer(
    ALSGradientAccumulationBody, keras.optimizers.LossScaleOptimizer
):
    """Counts and unscales the gradients of every micro-batch before they are accumulated.

    A step of the loss scaling is an update, as with the vendor: all micro-batches of an update have
    one factor. This optimizer replaces `als_optimizer`, whose wrapped optimizer gets the
    accumulated gradients.

    Args:
        als_optimizer: An `ALSOptimizer` that is not built yet.
        num_mini_batches: See `GradientAccumulationOptimizer`, as for all that are not described.
        name: Name of the optimizer.

    Raises:
        ValueError: `als_optimizer` is of another class, or an argument is out of its range.
    """

    als_optimizer: ALSOptimizerBody

    def _make_accumulation(
        self, als_optimizer: ALSOptimizerBody, arguments: Mapping[str, Any], name: str
    ) -> None:
        accumulation = GradientAccumulationOptimizer(als_optimizer.inner_optimizer, **arguments)
        keras.optimizers.LossScaleOptimizer.__init__(self, accumulation, name=name)

    def _config_of_accumulation(self) -> dict[str, object]:
        config: dict[str, object] = self.inner_optimizer.get_config()
        return config

    def build(self, var_list: Sequence[keras.Variable]) -> None:
        """Makes the accumulators and the variables of the wrapped optimizer."""
        self.inner_optimizer.build(var_list)
        # Skips the method of Keras' class, whose counter and scale are not needed.
        super(keras.optimizers.LossScaleOptimizer, self).build(var_list)

    @property
    def variables(self) -> list[keras.Variable]:
        """Its own variables, those of the loss scaling and those of the accumulation."""
        return [
            *self._variables,
            *self.als_optimizer.loss_scaling_variables,
            *self.inner_optimizer.variables,
        ]

    def apply(
        self,
        grads: Sequence[Gradient],
        trainable_variables: Sequence[Variable] | None = None,
        captured_grads: CapturedGradients | None = None,
        captured_counts: tf.Tensor | None = None,
    ) -> None:
        """Counts the scaled gradients of a micro-batch and accumulates them unscaled.

        Args:
            grads: Gradients of the scaled loss.
            trainable_variables: Their variables; None stands for the variables given to `build`.
            captured_grads: See `ALSOptimizer.apply`.
            captured_counts: See `ALSOptimizer.apply`.
        """
        if not self.built:
            self.build(list(trainable_variables or ()))
        gradients = self.als_optimizer.unscaled(
            grads, captured_grads, captured_counts, self.inner_optimizer.ends_update()
        )
        self.inner_optimizer.apply(gradients, trainable_variables)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Gradient, Variable]],
        captured_grads: CapturedGradients | None = None,
        name: str | None = None,
        experimental_aggregate_gradients: bool = True,
        captured_counts: tf.Tensor | None = None,
    ) -> tf.Variable:
        """Counts and accumulates gradients; see `apply`.

        Args:
            grads_and_vars: Gradients of the scaled loss, each with its variable.
            captured_grads: See `ALSOptimizer.apply`.
            name: Accepted for compatibility; has no effect.
            experimental_aggregate_gradients: Accepted for compatibility; has no effect.
            captured_counts: See `ALSOptimizer.apply`.

        Returns:
            The number of updates.
        """
        del name, experimental_aggregate_gradients
        grads, variables = zip(*grads_and_vars, strict=True)
        self.apply(grads, variables, captured_grads, captured_counts)
        return self.iterations
