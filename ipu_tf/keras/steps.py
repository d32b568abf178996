"""What a model runs on the device in a step: the programs that `strategy.run` compiles.

A training step without accumulation and replicas is Keras' own `train_step`. Otherwise it is two
programs: one that adds the gradients of a micro-batch to the accumulator, one that updates the
weights.
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.keras.accumulation import GradientAccumulator
from ipu_tf.keras.options import GradientAccumulationOptions
from ipu_tf.keras.replication import ReplicaState, seed_states

Step = Callable[..., Any]
"""A batch of data to the logs of a step, or to the predictions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """How a model is replicated.

    Attributes:
        count: Number of replicas.
        group: Replicas that take the statistics of batch norm together. A group runs as one
            batch, and its replicas share the states of batch norm and of random generators.
        group_state: What each group has for itself, None with a single group.
        metrics: The state of metrics of each replica, None with a single replica.
    """

    count: int = 1
    group: int = 1
    group_state: ReplicaState | None = None
    metrics: ReplicaState | None = None

    @property
    def groups(self) -> int:
        """Number of groups."""
        return self.count // self.group


def replicas_of(model: keras.Model, count: int, group: int) -> Replicas:
    """Returns how a built model is replicated, every replica in the state of the model.

    Args:
        model: The model.
        count: Number of replicas.
        group: Replicas that take the statistics of batch norm together.
    """
    if count == 1:
        return Replicas()
    metrics = [variable.value for variable in model.metrics_variables]
    metric_ids = {id(variable) for variable in metrics}
    state = [
        variable.value
        for variable in model.non_trainable_variables
        if id(variable.value) not in metric_ids
    ]
    groups = count // group
    return Replicas(
        count=count,
        group=group,
        group_state=ReplicaState(state, seed_states(model), groups) if groups > 1 else None,
        metrics=ReplicaState(metrics, (), count),
    )


class TrainingSteps:
    """The programs of training with accumulation or replicas.

    Args:
        strategy: Runs the programs.
        model: A built and compiled model.
        accumulation: Micro-batches of an update, and how their gradients are reduced.
        replicas: How the model is replicated.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: keras.Model,
        accumulation: GradientAccumulationOptions,
        replicas: Replicas,
    ) -> None:
        self._strategy = strategy
        self._model = model
        self._replicas = replicas
        self._weights = list(model.trainable_weights)
        weights = [weight.value for weight in self._weights]
        self.accumulator = GradientAccumulator(weights, accumulation)

    @tf.autograph.experimental.do_not_convert
    def step(self, batch: Any, group: tf.Tensor, micro_batch: tf.Tensor) -> Any:
        """Adds the gradients of a group's micro-batches to the accumulator.

        Args:
            batch: The batches of the group's replicas, one after the other on the first axis.
            group: int32 scalar, number of the group.
            micro_batch: int32 scalar, number of the micro-batch within its update.

        Returns:
            The logs of each of the group's replicas, stacked on a new first axis.
        """

        def train_step(model: keras.Model, batch: Any) -> Any:
            del model  # It is there for the program to be the model's.
            return self._accumulate(batch, group, micro_batch)

        return self._strategy.run(types.MethodType(train_step, self._model), args=(batch,))

    @tf.autograph.experimental.do_not_convert
    def update(self) -> None:
        """Gives the accumulated gradients to the optimizer."""

        def weight_update(model: keras.Model) -> None:
            if not self._weights:
                warnings.warn("The model does not have any trainable weights.", stacklevel=2)
                return
            gradients = self.accumulator.gradients()
            model.optimizer.apply_gradients(zip(gradients, self._weights, strict=True))

        self._strategy.run(types.MethodType(weight_update, self._model))

    def _accumulate(self, batch: Any, group: tf.Tensor, micro_batch: tf.Tensor) -> Any:
        model = self._model
        x, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
        logs = []
        with tf.GradientTape() as tape:
            outputs = model(x, training=True) if model._call_has_training_arg else model(x)
            losses = []
            for member in range(self._replicas.group):
                replica = group * self._replicas.group + member
                loss, replica_logs = self._loss_and_logs(tape, batch, outputs, replica, member)
                losses.append(loss)
                logs.append(replica_logs)
            loss = model.optimizer.scale_loss(tf.add_n(losses) if len(losses) > 1 else losses[0])
        gradients = tape.gradient(loss, [weight.value for weight in self._weights])
        self.accumulator.add(gradients, micro_batch, new_step=tf.equal(group, 0))
        return keras.tree.map_structure(lambda *values: tf.stack(values), *logs)

    def _loss_and_logs(
        self, tape: tf.GradientTape, batch: Any, outputs: Any, replica: tf.Tensor, member: int
    ) -> tuple[tf.Tensor, Any]:
        """Returns the loss of a member of the group on its part of the batch, and its logs."""
        model, metrics = self._model, self._replicas.metrics
        part = keras.tree.map_structure(lambda leaf: self._part(leaf, member), (batch, outputs))
        x, y, weights = keras.utils.unpack_x_y_sample_weight(part[0])
        if metrics is not None:
            metrics.load(replica)
        arguments = {"x": x, "y": y, "y_pred": part[1], "sample_weight": weights}
        loss = model._compute_loss(**arguments, training=True)
        with tape.stop_recording():
            samples = next(leaf for leaf in keras.tree.flatten(x) if leaf is not None).shape[0]
            model._loss_tracker.update_state(loss, sample_weight=tf.constant(samples))
            logs = model.compute_metrics(**arguments)
            if metrics is not None:
                metrics.store(replica)
        return loss, logs

    def _part(self, leaf: Any, member: int) -> Any:
        """Returns a member's rows of a tensor of the whole group."""
        if leaf is None or self._replicas.group == 1:
            return leaf
        rows = leaf.shape[0] // self._replicas.group
        return leaf[member * rows : (member + 1) * rows]


def run_with(strategy: tf.distribute.Strategy, step: Step) -> Step:
    """Returns a function that runs `step` on a batch as a program of the device."""

    @tf.autograph.experimental.do_not_convert
    def run_step(batch: Any) -> Any:
        return strategy.run(step, args=(batch,))

    return run_step
