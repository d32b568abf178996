"""Optimizers of Keras 3, as the loop sees them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import cast

import keras
import tensorflow as tf

from ipu_tf.internals.keras_optimizers import variables_trained_by
from ipu_tf.internals.structures import Gradient, TensorStructure
from ipu_tf.keras.adapters.captured_gradients import captured_for
from ipu_tf.keras.adapters.models import HoldUpdate, Weight, replaced_methods
from ipu_tf.keras.keras3.equal_updates import tracing_equal_updates_once
from ipu_tf.programs.op_names import LOSS


@dataclass(frozen=True, slots=True)
class Keras3Optimizer:
    """An optimizer of Keras 3; see `OptimizerAdapter`.

    Attributes:
        stock: The optimizer.
    """

    stock: keras.optimizers.Optimizer

    @property
    def counts_captured_gradients(self) -> bool:
        """Whether it counts the gradients that are captured in a step."""
        return bool(getattr(self.stock, "supports_captured_grads", False))

    @property
    def class_that_updates_in_minimize(self) -> str | None:
        """The class of it, or of one that it wraps, whose own `minimize` updates otherwise."""
        optimizer: object = self.stock
        while optimizer is not None:
            if _updates_in_minimize(type(optimizer)):
                return type(optimizer).__name__
            optimizer = getattr(optimizer, "inner_optimizer", None)
        return None

    def scaled(self, loss: tf.Tensor) -> tf.Tensor:
        """Returns the loss to differentiate, in the scope of losses."""
        with keras.name_scope(LOSS):
            return self.stock.scale_loss(loss)

    def gradients(
        self, tape: tf.GradientTape, loss: tf.Tensor, weights: Sequence[Weight]
    ) -> list[Gradient]:
        """Returns gradients, those of the optimizer's `gradients_on_tape` if it has one."""
        own = getattr(self.stock, "gradients_on_tape", None)
        gradients = tape.gradient(loss, weights) if own is None else own(tape, loss, weights)
        return cast("list[Gradient]", gradients)

    def apply(self, pairs: Iterable[tuple[Gradient, Weight]], **captured: TensorStructure) -> None:
        """Updates weights, and the count of updates, in the optimizer's scope."""
        with (
            keras.name_scope(self.stock.name, caller=self.stock),
            tracing_equal_updates_once(self.stock),
        ):
            self.stock.apply_gradients(pairs, **captured)

    def update(self, tape: tf.GradientTape, loss: tf.Tensor, weights: Sequence[Weight]) -> None:
        """Updates weights, or lets the optimizer's `minimize_on_tape` do it."""
        own = getattr(self.stock, "minimize_on_tape", None)
        with keras.name_scope(self.stock.name, caller=self.stock):
            if own is not None and own(tape, loss, weights):
                return
        pairs = zip(self.gradients(tape, loss, weights), weights, strict=True)
        self.apply(pairs, **captured_for(self.stock))

    def holding_updates(self, hold: HoldUpdate) -> AbstractContextManager[None]:
        """Returns a context in which `apply` and `apply_gradients` update nothing."""

        def apply_gradients(
            grads_and_vars: Iterable[tuple[Gradient, Weight]], **_: object
        ) -> object:
            hold(list(grads_and_vars))
            return self.stock.iterations

        def apply(
            grads: Sequence[Gradient], trainable_variables: Sequence[Weight] | None = None
        ) -> None:
            own_variables = (
                variables_trained_by(self.stock)
                if trainable_variables is None
                else trainable_variables
            )
            hold(list(zip(grads, own_variables, strict=True)))

        return replaced_methods(self.stock, apply=apply, apply_gradients=apply_gradients)


def _updates_in_minimize(kind: type) -> bool:
    """Returns whether the class that defines an optimizer's `minimize` lacks `apply_gradients`."""
    owner = next((base for base in kind.__mro__ if "minimize" in vars(base)), None)
    if owner is None or owner is keras.optimizers.Optimizer:
        return False
    return "apply_gradients" not in vars(owner)
