"""Gradient accumulation by optimizers for models of tf_keras, alone and with loss scaling."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import tensorflow as tf
import tf_keras
from tf_keras.mixed_precision import LossScaleOptimizer
from tf_keras.optimizers import legacy

from ipu_tf.internals.structures import DType, Gradient
from ipu_tf.internals.tf_keras import Optimizer, make_state, track
from ipu_tf.keras.optimizers.als_gradient_accumulation_optimizer import ALSGradientAccumulationBody
from ipu_tf.keras.optimizers.als_loss_scaling import CapturedGradients
from ipu_tf.keras.optimizers.gradient_accumulation_optimizer import GradientAccumulationBody
from ipu_tf.keras.tf_keras import loss_scaling
from ipu_tf.keras.tf_keras.als_optimizer import ALSOptimizer, MadeAsOthers
from ipu_tf.keras.tf_keras.layer_calls import updating
from ipu_tf.keras.tf_keras.layers.base import registered
from ipu_tf.keras.tf_keras.slots import OptimizerWithSlots

_ACCUMULATOR = "gradient_accumulator"


@registered
class GradientAccumulationOptimizer(GradientAccumulationBody, OptimizerWithSlots):
    """See `ipu_tf.keras.optimizers.GradientAccumulationOptimizer`."""

    _keras: ClassVar[Any] = tf_keras
    inner_optimizer: Optimizer = None  # `LossScaleOptimizer` has a property of this name.
    name: str | None = None

    def _make(self, opt: Optimizer, name: str) -> None:
        legacy.Optimizer.__init__(self, name)
        self.name = name
        self.inner_optimizer = opt
        track(self, "inner_optimizer", opt)
        self._steps = self.add_weight(
            "accumulated_mini_batches", (), dtype=tf.int32, trainable=False
        )

    def get_slot_dtype(self, var: tf.Variable, slot_name: str) -> DType:
        """Returns the dtype of a variable's accumulator."""
        del slot_name
        return self.dtype or var.dtype

    def _create_slots(self, var_list: list[tf.Variable]) -> None:
        for var in var_list:
            self.add_slot(var, _ACCUMULATOR)
        make_state(self.inner_optimizer, var_list)

    @updating
    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Gradient, tf.Variable]],
        name: str | None = None,
        experimental_aggregate_gradients: bool = True,
    ) -> tf.Tensor | tf.Operation:
        """Adds gradients to the accumulators; at the last step of an update, applies them.

        Args:
            grads_and_vars: Gradients of one micro-batch, None for missing ones, each with its
                variable.
            name: Name of the operations of the update.
            experimental_aggregate_gradients: Whether to sum the gradients of replicas.

        Returns:
            The number of updates; in a function the operation that reads it, as in stock tf_keras:
            that of a loss scale is a branch beside one that returns an operation.
        """
        pairs = [
            (gradient, variable) for gradient, variable in grads_and_vars if gradient is not None
        ]
        variables = [variable for _, variable in pairs]
        with tf.init_scope():
            make_state(self, variables)

        def update(reduced: list[tf.Tensor]) -> None:
            if loss_scaling.scales(self.inner_optimizer):
                reduced = loss_scaling.unscaled(self.inner_optimizer, reduced)
            cast = [tf.cast(one, to.dtype) for one, to in zip(reduced, variables, strict=True)]
            self.inner_optimizer.apply_gradients(
                zip(cast, variables, strict=True),
                name=name,
                experimental_aggregate_gradients=experimental_aggregate_gradients,
            )

        self._accumulate(
            [(self.get_slot(variable, _ACCUMULATOR), gradient) for gradient, variable in pairs],
            update,
        )
        updates = tf.convert_to_tensor(self.iterations)
        return updates if tf.executing_eagerly() else updates.op

    def get_scaled_loss(self, loss: tf.Tensor) -> tf.Tensor:
        """Returns the loss as scaled by the wrapped optimizer."""
        scaled = getattr(self.inner_optimizer, "get_scaled_loss", None)
        return loss if scaled is None else scaled(loss)

    def _transform_loss(self, loss: tf.Tensor) -> tf.Tensor:
        """Returns the loss that `minimize` differentiates."""
        return self.get_scaled_loss(loss)

    def variables(self) -> list[tf.Variable]:
        """Returns its variables and those of the wrapped optimizer."""
        return self.weights

    @property
    def weights(self) -> list[tf.Variable]:
        """Its variables and those of the wrapped optimizer."""
        return [self._steps, *super().weights, *self.inner_optimizer.variables()]


@registered
class ALSGradientAccumulationOptimizer(
    ALSGradientAccumulationBody,
    GradientAccumulationOptimizer,
    LossScaleOptimizer,
    metaclass=MadeAsOthers,
):
    """See `ipu_tf.keras.optimizers.ALSGradientAccumulationOptimizer`.

    It is a `LossScaleOptimizer` of tf_keras, so `compile` adds no second loss scaling.
    """

    _keras: ClassVar[Any] = tf_keras
    als_optimizer: ALSOptimizer

    def _make_accumulation(
        self, als_optimizer: ALSOptimizer, arguments: Mapping[str, Any], name: str
    ) -> None:
        GradientAccumulationOptimizer.__init__(
            self, als_optimizer.inner_optimizer, **arguments, name=name
        )
        track(self, "als_optimizer", als_optimizer)

    def _config_of_accumulation(self) -> dict[str, object]:
        return GradientAccumulationOptimizer.get_config(self)

    def get_scaled_loss(self, loss: tf.Tensor) -> tf.Tensor:
        """Returns a loss times the loss scaling factor, in the loss's dtype."""
        return self.scale_loss(loss)

    @property
    def loss_scale(self) -> tf.Tensor:
        """The factor of the next loss, a float32 scalar."""
        return self.loss_scaling_factor

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Gradient, tf.Variable]],
        captured_grads: CapturedGradients | None = None,
        name: str | None = None,
        experimental_aggregate_gradients: bool = True,
        captured_counts: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Counts the scaled gradients of a micro-batch and accumulates them unscaled.

        Args:
            grads_and_vars: Gradients of the scaled loss, each with its variable.
            captured_grads: See `ALSOptimizer.apply_gradients`.
            name: Name of the operations of the update.
            experimental_aggregate_gradients: Whether to sum the gradients of replicas.
            captured_counts: See `ALSOptimizer.apply_gradients`.

        Returns:
            The number of updates.
        """
        grads, variables = zip(*grads_and_vars, strict=True)
        unscaled = self.als_optimizer.unscaled(
            grads, captured_grads, captured_counts, self.ends_update()
        )
        return super().apply_gradients(
            zip(unscaled, variables, strict=True),
            name=name,
            experimental_aggregate_gradients=experimental_aggregate_gradients,
        )

    @property
    def weights(self) -> list[tf.Variable]:
        """Its variables, those of the loss scaling and those of the wrapped optimizer."""
        return [*self.als_optimizer.loss_scaling_variables, *super().weights]
