"""Models of Keras 3, as the loop sees them."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import cast

import keras
import tensorflow as tf

from ipu_tf.internals.keras_layers import layers_within, seed_generators_of, takes_training
from ipu_tf.internals.keras_optimizers import set_strategy_of
from ipu_tf.internals.keras_training import (
    build_missing_parts,
    compute_loss,
    loss_tracker_of,
    set_validation_steps,
)
from ipu_tf.internals.structures import SpecStructure, TensorStructure
from ipu_tf.keras.adapters.models import StepBatch, Weight, adapter_of, optimizers_held_by
from ipu_tf.keras.keras3.loop_adapter import LOOP, Keras3Loop
from ipu_tf.keras.keras3.optimizer_adapter import Keras3Optimizer
from ipu_tf.programs.op_names import LOSS, METRICS


@adapter_of.register(keras.Model)
@dataclass(frozen=True, slots=True)
class Keras3Model:
    """A model of Keras 3; see `ModelAdapter`.

    Keras opens no scope for losses of a model and for metrics; here they are "loss" and "metrics".
    A user's layer of the same name shares the scope.

    Attributes:
        stock: The model.
    """

    stock: keras.Model

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.stock.name)

    @property
    def optimizer(self) -> Keras3Optimizer | None:
        """The optimizer, None before `compile`."""
        own = self.stock.optimizer
        return None if own is None else Keras3Optimizer(own)

    @property
    def optimizers(self) -> list[Keras3Optimizer]:
        """The optimizers that are attributes of it, and those that they wrap."""
        optimizers = optimizers_held_by(self.stock, keras.optimizers.Optimizer)
        return [Keras3Optimizer(one) for one in optimizers]

    @property
    def has_call(self) -> bool:
        """Whether its class defines the computation of outputs."""
        stock = inspect.getattr_static(keras.Model, "call")
        return inspect.getattr_static(type(self.stock), "call") is not stock

    @property
    def trainable_weights(self) -> list[Weight]:
        """The weights that training updates."""
        return list(self.stock.trainable_weights)

    def variables_of(self, weights: Iterable[Weight]) -> list[tf.Variable]:
        """Returns the variables of TensorFlow that hold weights."""
        return [weight.value for weight in weights]

    @property
    def state_variables(self) -> list[tf.Variable]:
        """The variables that steps change beside weights and metrics."""
        metrics = {id(variable) for variable in self.metric_variables}
        variables = self.variables_of(self.stock.non_trainable_variables)
        return [variable for variable in variables if id(variable) not in metrics]

    @property
    def metric_variables(self) -> list[tf.Variable]:
        """The variables of metrics."""
        return self.variables_of(self.stock.metrics_variables)

    @property
    def seed_states(self) -> list[tf.Variable]:
        """The states of the random generators of layers."""
        return [
            generator.state.value
            for layer in (self.stock, *layers_within(self.stock))
            for generator in seed_generators_of(layer)
        ]

    def step(self, name: str) -> Callable[[TensorStructure], TensorStructure]:
        """Returns the step of this name, such as "train_step", as a method of the model."""
        return cast("Callable[[TensorStructure], TensorStructure]", getattr(self.stock, name))

    def unpacked(
        self, data: TensorStructure
    ) -> tuple[TensorStructure, TensorStructure, TensorStructure]:
        """Returns inputs, targets and weights of samples from an element of a dataset."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        return x, y, sample_weight

    def outputs(self, x: TensorStructure, *, training: bool) -> TensorStructure:
        """Returns the outputs of the model, called for training or for inference."""
        takes = takes_training(self.stock)
        return cast("TensorStructure", self.stock(x, training=training) if takes else self.stock(x))

    def loss(self, batch: StepBatch, *, training: bool) -> tf.Tensor:
        """Returns the loss, that of layers included, in the scope of losses."""
        with keras.name_scope(LOSS):
            return compute_loss(self.stock, **_arguments(batch), training=training)

    def track_loss(self, loss: tf.Tensor, x: TensorStructure) -> None:
        """Adds a loss to the mean that logs show, weighted with the samples of `x`."""
        first = next(leaf for leaf in keras.tree.flatten(x) if leaf is not None)
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        with keras.name_scope(METRICS):
            if replicas > 1:  # Keras has divided the loss by them.
                loss = loss * tf.cast(replicas, loss.dtype)
            loss_tracker_of(self.stock).update_state(loss, sample_weight=tf.shape(first)[0])

    def metrics(self, batch: StepBatch) -> TensorStructure:
        """Returns the logs of a step, computed in the scope of metrics."""
        with keras.name_scope(METRICS):
            return cast("TensorStructure", self.stock.compute_metrics(**_arguments(batch)))

    @property
    def loop(self) -> Keras3Loop:
        """The loop that runs its methods."""
        return LOOP

    @property
    def declares_layers(self) -> bool:
        """Whether its layers are known before it is built."""
        return isinstance(self.stock, keras.Sequential)

    @property
    def layers_are_built(self) -> bool:
        """Whether all layers in it have their variables."""
        return all(layer.built for layer in layers_within(self.stock))

    def note_inputs(self, batch: SpecStructure) -> None:
        """Keeps the shapes of inputs of a batch that the model is built for."""
        self.stock.ipu_layer_calls.seen_inputs, _, _ = self.unpacked(batch)

    def note_validation_steps(self, steps: int) -> None:
        """Sets the steps of an execution on the validation data that `fit` is reading."""
        set_validation_steps(self.stock, steps)

    def adopt_optimizers(self) -> None:
        """Makes the optimizers of the model belong to its strategy, also those made outside."""
        for optimizer in self.optimizers:
            set_strategy_of(optimizer.stock, self.stock.distribute_strategy)

    def making_variables(self) -> contextlib.AbstractContextManager[None]:
        """Returns an empty context: no optimizer updates in such a trace."""
        return contextlib.nullcontext()

    def is_built_for(self, step: str) -> bool:
        """Returns whether the variables exist that a step uses: all steps use the same."""
        del step
        return bool(self.stock.built)

    def build_missing_parts(self, step: str, batch: SpecStructure) -> None:
        """Builds what `fit` would build for batches of these shapes, unless it is built."""
        del step
        build_missing_parts(self.stock, batch)


def _arguments(batch: StepBatch) -> dict[str, TensorStructure]:
    """Returns a batch as Keras' functions of losses and metrics take it."""
    return {
        "x": batch.x,
        "y": batch.y,
        "y_pred": batch.y_pred,
        "sample_weight": batch.sample_weight,
    }
