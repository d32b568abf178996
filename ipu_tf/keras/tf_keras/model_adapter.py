"""Models of tf_keras, as the loop sees them."""

from __future__ import annotations

import contextlib
import inspect
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import cast

import tensorflow as tf
import tf_keras

from ipu_tf.internals.autograph import autograph
from ipu_tf.internals.keras import register_mappings_in
from ipu_tf.internals.structures import SpecStructure, TensorStructure
from ipu_tf.internals.tf_keras import (
    RECURRENT_LAYERS,
    check_loss,
    forgo_library_kernels,
    layers_within,
    set_strategy_of,
)
from ipu_tf.keras.adapters.models import StepBatch, Weight, adapter_of, optimizers_held_by
from ipu_tf.keras.steps.own_steps import build_by_tracing
from ipu_tf.keras.tf_keras.layer_calls import work
from ipu_tf.keras.tf_keras.loop_adapter import LOOP, TfKerasLoop
from ipu_tf.keras.tf_keras.optimizer_adapter import TfKerasOptimizer
from ipu_tf.keras.tf_keras.variable_traces import making_variables
from ipu_tf.programs.op_names import LOSS, METRICS


@adapter_of.register(tf_keras.Model)
@dataclass(frozen=True, slots=True)
class TfKerasModel:
    """A model of tf_keras; see `ModelAdapter`.

    Attributes:
        stock: The model.
    """

    stock: tf_keras.Model

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.stock.name)

    @property
    def optimizer(self) -> TfKerasOptimizer | None:
        """The optimizer, None before `compile`."""
        own = self.stock.optimizer
        return None if own is None else TfKerasOptimizer(own)

    @property
    def optimizers(self) -> list[TfKerasOptimizer]:
        """The optimizers that are attributes of it, and those that they wrap."""
        kinds = tf_keras.optimizers.Optimizer, tf_keras.optimizers.legacy.Optimizer
        return [TfKerasOptimizer(one) for one in optimizers_held_by(self.stock, kinds)]

    @property
    def has_call(self) -> bool:
        """Whether its class, or the SavedModel that it is from, computes outputs."""
        if "call" in vars(self.stock):
            return True
        stock = inspect.getattr_static(tf_keras.Model, "call")
        return inspect.getattr_static(type(self.stock), "call") is not stock

    @property
    def trainable_weights(self) -> list[Weight]:
        """The weights that training updates."""
        return list(self.stock.trainable_variables)

    def variables_of(self, weights: Iterable[Weight]) -> list[tf.Variable]:
        """Returns the variables of TensorFlow that hold weights: themselves."""
        return list(weights)

    @property
    def state_variables(self) -> list[tf.Variable]:
        """The variables that steps change beside weights and metrics."""
        metrics = {id(variable) for variable in self.metric_variables}
        variables = self.stock.non_trainable_variables
        return [variable for variable in variables if id(variable) not in metrics]

    @property
    def metric_variables(self) -> list[tf.Variable]:
        """The variables of metrics."""
        return [variable for metric in self.stock.metrics for variable in metric.variables]

    @property
    def seed_states(self) -> list[tf.Variable]:
        """None: the random operations of tf_keras keep their states themselves."""
        return []

    def step(self, name: str) -> Callable[[TensorStructure], TensorStructure]:
        """Returns the step of this name, such as "train_step", as a method of the model.

        Layers in it are converted by AutoGraph, the step itself is not, as in stock tf_keras.
        Recurrent layers compute by their cells, whose loops programs know.
        """

        def step(model: tf_keras.Model, data: TensorStructure) -> TensorStructure:
            for layer in layers_within(model):
                if isinstance(layer, RECURRENT_LAYERS):
                    forgo_library_kernels(layer)
            with autograph():
                results = getattr(model, name)(data)
            register_mappings_in(results)
            return cast("TensorStructure", results)

        step.__name__ = name
        return types.MethodType(step, self.stock)

    def unpacked(
        self, data: TensorStructure
    ) -> tuple[TensorStructure, TensorStructure, TensorStructure]:
        """Returns inputs, targets and weights of samples from an element of a dataset."""
        x, y, sample_weight = tf_keras.utils.unpack_x_y_sample_weight(data)
        return x, y, sample_weight

    def outputs(self, x: TensorStructure, *, training: bool) -> TensorStructure:
        """Returns the outputs of the model; AutoGraph converts the `call` of layers, as always."""
        with autograph():
            outputs = self.stock(x, training=training)
        register_mappings_in(outputs)
        return cast("TensorStructure", outputs)

    def loss(self, batch: StepBatch, *, training: bool) -> tf.Tensor:
        """Returns the loss, that of layers included, in the scope of losses.

        tf_keras adds it to the mean that logs show.
        """
        with autograph(), tf.name_scope(LOSS), work(LOSS):
            loss = self.stock.compute_loss(batch.x, batch.y, batch.y_pred, batch.sample_weight)
        if training:
            check_loss(self.stock, batch.y, loss)
        return loss

    def track_loss(self, loss: tf.Tensor, x: TensorStructure) -> None:
        """Does nothing: `loss` has added it to the mean."""

    def metrics(self, batch: StepBatch) -> TensorStructure:
        """Returns the logs of a step, computed in the scope of metrics."""
        with autograph(), tf.name_scope(METRICS), work(METRICS):
            logs = self.stock.compute_metrics(batch.x, batch.y, batch.y_pred, batch.sample_weight)
            return cast("TensorStructure", logs)

    @property
    def loop(self) -> TfKerasLoop:
        """The loop that runs its methods."""
        return LOOP

    @property
    def declares_layers(self) -> bool:
        """Whether its layers are known before it is built."""
        return isinstance(self.stock, tf_keras.Sequential)

    @property
    def layers_are_built(self) -> bool:
        """Whether all layers in it have their variables."""
        return all(layer.built for layer in layers_within(self.stock))

    def note_inputs(self, batch: SpecStructure) -> None:
        """Keeps the shapes of inputs of a batch that the model is built for."""
        self.stock.ipu_layer_calls.seen_inputs, _, _ = self.unpacked(batch)

    def note_validation_steps(self, steps: int) -> None:
        """Does nothing: all data handlers of a model read one variable."""

    def adopt_optimizers(self) -> None:
        """Makes the optimizers of the model belong to its strategy, also those made outside."""
        for optimizer in self.optimizers:
            set_strategy_of(optimizer.stock, self.stock.distribute_strategy)

    def making_variables(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context for a trace that makes variables, with the gradients of an update."""
        return making_variables(self.stock, [optimizer.stock for optimizer in self.optimizers])

    def is_built_for(self, step: str) -> bool:
        """Returns whether the variables exist that a step, such as "train_step", uses."""
        if not (self.stock.built and self.layers_are_built):
            return False
        parts = (self.stock.compiled_loss, self.stock.compiled_metrics)
        return step == "predict_step" or all(part is None or part.built for part in parts)

    def build_missing_parts(self, step: str, batch: SpecStructure) -> None:
        """Builds the variables of layers, loss, metrics and optimizer by tracing a step."""
        build_by_tracing(self.stock, step, batch)
