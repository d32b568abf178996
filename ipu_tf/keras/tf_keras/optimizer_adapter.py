"""Optimizers of tf_keras, as the loop sees them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import tensorflow as tf
import tf_keras

from ipu_tf.internals.structures import Gradient, TensorStructure
from ipu_tf.internals.tf_keras import (
    aggregates_gradients,
    computes_gradients,
    dense,
    gradients_by,
    own_minimize,
)
from ipu_tf.keras.adapters.captured_gradients import captured_for
from ipu_tf.keras.adapters.models import HoldUpdate, Weight, replaced_methods
from ipu_tf.keras.tf_keras import loss_scaling
from ipu_tf.keras.tf_keras.layer_calls import update, work
from ipu_tf.programs.op_names import LOSS


@dataclass(frozen=True, slots=True)
class TfKerasOptimizer:
    """An optimizer of tf_keras; see `OptimizerAdapter`.

    Attributes:
        stock: The optimizer, a new or a legacy one.
    """

    stock: tf_keras.optimizers.Optimizer

    @property
    def counts_captured_gradients(self) -> bool:
        """Whether it counts the gradients that are captured in a step."""
        return bool(getattr(self.stock, "supports_captured_grads", False))

    @property
    def class_that_updates_in_minimize(self) -> str | None:
        """The class of a script whose own `minimize` updates otherwise, also below a scale."""
        return own_minimize(self.stock) or own_minimize(
            getattr(self.stock, "inner_optimizer", None)
        )

    def scaled(self, loss: tf.Tensor) -> tf.Tensor:
        """Returns the loss to differentiate, in the scope of losses; own code may scale it."""
        is_scaled = hasattr(self.stock, "get_scaled_loss")
        scales_itself = own_minimize(self.stock) or computes_gradients(self.stock)
        if not is_scaled or scales_itself:
            return loss
        with tf.name_scope(LOSS), work(LOSS):
            return self.stock.get_scaled_loss(loss)

    def gradients(
        self, tape: tf.GradientTape, loss: tf.Tensor, weights: Sequence[Weight]
    ) -> list[Gradient]:
        """Returns gradients of static shape, without the scale of the loss."""
        if computes_gradients(self.stock):
            return dense(gradients_by(self.stock, tape, loss, weights))
        tape_gradients = dense(tape.gradient(loss, weights))
        if not loss_scaling.scales(self.stock):
            return tape_gradients
        with update(self.stock):
            return loss_scaling.unscaled(self.stock, tape_gradients)

    def apply(self, pairs: Iterable[tuple[Gradient, Weight]], **captured: TensorStructure) -> None:
        """Updates weights, and the count of updates; the optimizer opens its scope.

        Optimizers of scripts read the pairs more than once.
        """
        self.stock.apply_gradients(list(pairs), **self._aggregation_argument(), **captured)

    def update(self, tape: tf.GradientTape, loss: tf.Tensor, weights: Sequence[Weight]) -> None:
        """Updates weights, by the `minimize` of a script's optimizer if it has one."""
        if own_minimize(self.stock) is not None:
            self.stock.minimize(loss, weights, tape=tape)
            return
        pairs = zip(self.gradients(tape, loss, weights), weights, strict=True)
        self.apply(pairs, **captured_for(self.stock))

    def holding_updates(self, hold: HoldUpdate) -> AbstractContextManager[None]:
        """Returns a context in which `apply_gradients` and `minimize` update nothing."""

        def apply_gradients(
            grads_and_vars: Iterable[tuple[Gradient, Weight]], *_: object, **__: object
        ) -> object:
            gradients, weights = zip(*grads_and_vars, strict=True)
            hold(list(zip(dense(gradients), weights, strict=True)))
            return self.stock.iterations

        return replaced_methods(self.stock, apply_gradients=apply_gradients)

    def _aggregation_argument(self) -> dict[str, bool]:
        """Returns the argument by which gradients, those of all replicas, are not summed again.

        Without it the sum is over one: a step of a model is a program of one replica. A script's
        own way of joining gradients is called.
        """
        if aggregates_gradients(self.stock):
            return {}
        argument = "experimental_aggregate_gradients"
        parameters = inspect.signature(self.stock.apply_gradients).parameters.values()
        has_argument = any(
            one.name == argument or one.kind is one.VAR_KEYWORD for one in parameters
        )
        return {argument: False} if has_argument else {}
