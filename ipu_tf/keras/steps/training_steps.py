"""The programs of training with accumulation or replicas.

The host runs a program for each micro-batch, which adds its gradients to the accumulators, joins
those of all replicas, and runs a program that updates the weights. An IPU runs both in one program,
on the micro-batches of its replica alone; `DeviceStep` traces that program for its figures.
"""

from __future__ import annotations

import contextlib
import functools
import types
import warnings
from collections.abc import Callable
from typing import cast

import tensorflow as tf
from keras import tree

from ipu_tf.feeds import shared_programs
from ipu_tf.internals.structures import Gradient, SpecStructure, TensorStructure
from ipu_tf.keras.adapters.models import ModelAdapter, StepBatch
from ipu_tf.keras.options import GradientAccumulationOptions
from ipu_tf.keras.replication.accumulation import CapturedGradientCounts, Carry, GradientAccumulator
from ipu_tf.keras.replication.replicas import Replicas
from ipu_tf.keras.steps import step_scopes
from ipu_tf.keras.steps.device_function import Step, run_with
from ipu_tf.keras.steps.own_step_gradients import gradients_of_own_step
from ipu_tf.keras.steps.own_steps import has_own, own_step
from ipu_tf.keras.training_state import StatefulModel
from ipu_tf.programs.update_runs import UpdateRuns
from ipu_tf.runtime.execution.placeholder_variables import placeholder_variables
from ipu_tf.runtime.programs import device_programs
from ipu_tf.runtime.replicas.fingerprints import fingerprint
from ipu_tf.runtime.tracing import hooks


class WeightUpdate:
    """The parts of a weight update: adds up the gradients of micro-batches and applies them.

    Args:
        model: A built and compiled model.
        accumulation: Micro-batches of an update, and how their gradients are reduced.
        replicas: How the model is replicated.
    """

    def __init__(
        self, model: ModelAdapter, accumulation: GradientAccumulationOptions, replicas: Replicas
    ) -> None:
        self._model = model
        self._replicas = replicas
        self._weights = list(model.trainable_weights)
        variables = model.variables_of(self._weights)
        stock = cast("StatefulModel", model.stock)
        self._own_step = own_step(stock, "train_step") if has_own(stock, "train_step") else None
        self.accumulator = GradientAccumulator(
            variables,
            accumulation,
            replicas,
            name=f"gradients of {model.name}",
        )
        self._sums = list(zip(self.accumulator.sums, variables, strict=True))
        optimizer = model.optimizer
        self._gradient_counts: CapturedGradientCounts | None = None
        job = replicas.instances * replicas.span
        if job > 1 and accumulation.replicated_optimizer_state_sharding:
            raise NotImplementedError(
                f"Model '{model.name}': `replicated_optimizer_state_sharding` shares out the "
                "optimizer state over the replicas of one instance, not over those of "
                f"{job}. Set it to False, or start one instance."
            )
        if optimizer is not None and optimizer.counts_captured_gradients:
            if job > 1:
                raise NotImplementedError(
                    f"Model '{model.name}': the optimizer counts captured gradients, which are not "
                    f"summed over {job} instances. Start one instance, which drives "
                    "all replicas, or scale the loss by a constant."
                )
            self._gradient_counts = CapturedGradientCounts(optimizer.stock)

    def reset(self) -> None:
        """Begins a new update."""
        self.accumulator.reset()
        if self._gradient_counts is not None:
            self._gradient_counts.reset()

    def add(
        self, batch: TensorStructure, group: tf.Tensor, micro_batch: tf.Tensor
    ) -> TensorStructure:
        """Adds the gradients of a group's micro-batches; see `TrainingSteps.step`."""
        if self._own_step is None:
            gradients, logs = self._of_group(batch, group)
        else:
            gradients, logs = self._of_own_step(self._own_step, batch, group)
        self.accumulator.add(gradients, micro_batch)
        if self._gradient_counts is not None:
            self._gradient_counts.add()
        return tree.map_structure(lambda *values: tf.stack(values), *logs)

    def _of_group(
        self, batch: TensorStructure, group: tf.Tensor
    ) -> tuple[list[Gradient], list[TensorStructure]]:
        """Returns the gradients of a group's micro-batches, and the logs of its replicas."""
        model = self._model
        x, _, _ = model.unpacked(batch)
        logs = []
        with tf.GradientTape() as tape:
            outputs = model.outputs(x, training=True)
            losses = []
            for member in range(self._replicas.group):
                replica = group * self._replicas.group + member
                with self._apart(member):
                    loss, replica_logs = self._loss_and_logs(tape, batch, outputs, replica, member)
                losses.append(loss)
                logs.append(replica_logs)
            loss = step_scopes.scaled(model, tf.add_n(losses) if len(losses) > 1 else losses[0])
        values = model.variables_of(self._weights)
        gradients = step_scopes.optimizer_of(model).gradients(tape, loss, values) if values else []
        return gradients, logs

    def _of_own_step(
        self, step: Step, batch: TensorStructure, group: tf.Tensor
    ) -> tuple[list[Gradient], list[TensorStructure]]:
        """Returns what `_of_group` returns, of a group of one, by the step of the model's own."""
        metrics = self._replicas.metrics
        if metrics is not None:
            metrics.load(group)
        gradients, logs = gradients_of_own_step(self._model, step, batch)
        if metrics is not None:
            metrics.store(group)
        return gradients, [logs]

    def note_sums(self) -> None:
        """Tells the open trace which weight each sum is for: names of variables may not say it."""
        tracer = hooks.active()
        if tracer is not None:
            for total, variable in self._sums:
                tracer.note_slot(total, variable)

    def apply(self) -> None:
        """Applies the accumulated gradients with the optimizer."""
        if not self._weights:
            warnings.warn("The model does not have any trainable weights.", stacklevel=2)
            return
        pairs = zip(self.accumulator.gradients(), self._weights, strict=True)
        counts = {} if self._gradient_counts is None else self._gradient_counts.arguments()
        step_scopes.optimizer_of(self._model).apply(pairs, **counts)

    def _loss_and_logs(
        self,
        tape: tf.GradientTape,
        batch: TensorStructure,
        outputs: TensorStructure,
        replica: tf.Tensor,
        member: int,
    ) -> tuple[tf.Tensor, TensorStructure]:
        """Returns the loss and the logs of a group's member on its part of the batch."""
        model, metrics = self._model, self._replicas.metrics
        part = tree.map_structure(lambda leaf: self._part(leaf, member), (batch, outputs))
        x, y, weights = model.unpacked(part[0])
        if metrics is not None:
            metrics.load(replica)
        compared = StepBatch(x=x, y=y, y_pred=part[1], sample_weight=weights)
        loss = model.loss(compared, training=True)
        with tape.stop_recording():
            model.track_loss(loss, x)
            logs = model.metrics(compared)
            if metrics is not None:
                metrics.store(replica)
        return loss, logs

    def _apart(self, member: int) -> contextlib.AbstractContextManager[None]:
        """Marks the operations of one replica of a group."""
        if self._replicas.group == 1:
            return contextlib.nullcontext()
        return shared_programs.of_member(member)

    def _part(self, leaf: tf.Tensor | None, member: int) -> tf.Tensor | None:
        """Returns a member's rows of a tensor of the whole group."""
        if leaf is None or self._replicas.group == 1:
            return leaf
        rows = leaf.shape[0] // self._replicas.group
        return leaf[member * rows : (member + 1) * rows]


class TrainingSteps:
    """The programs that the host runs to train with accumulation or replicas.

    Args:
        strategy: Runs the programs.
        model: A built and compiled model.
        accumulation: Micro-batches of an update, and how their gradients are reduced.
        replicas: How the model is replicated.

    Attributes:
        accumulator: Sums the gradients.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: ModelAdapter,
        accumulation: GradientAccumulationOptions,
        replicas: Replicas,
    ) -> None:
        self._strategy = strategy
        self._model = model
        self._group, self._instances = replicas.group, replicas.instances
        self._runs = UpdateRuns(
            micro_batches=accumulation.steps_per_replica,
            replicas=replicas.groups,
            group=replicas.group,
        )
        self._weight_update = WeightUpdate(model, accumulation, replicas)
        self.accumulator = self._weight_update.accumulator
        self._device_step = DeviceStep(strategy, model, accumulation)

    def reset(self) -> None:
        """Begins a new weight update."""
        self._weight_update.reset()

    def note_program(self, step: tf.types.experimental.ConcreteFunction) -> None:
        """Makes instances see that their steps are the same program.

        Args:
            step: The concrete function of `step`.
        """
        if self._instances > 1:
            self.accumulator.program = fingerprint(step.name)

    @tf.autograph.experimental.do_not_convert
    def step(
        self, batch: TensorStructure, group: tf.Tensor, micro_batch: tf.Tensor
    ) -> TensorStructure:
        """Adds the gradients of a group's micro-batches to the accumulator.

        Args:
            batch: The batches of the group's replicas, one after the other on the first axis.
            group: int32 scalar, number of the group.
            micro_batch: int32 scalar, number of the micro-batch within its update.

        Returns:
            The logs of each of the group's replicas, stacked on a new first axis.
        """
        # Traced before anything of these shapes runs: if it does not fit, nothing has run yet.
        of_one_replica = tree.map_structure(self._spec_of_one_replica, batch)
        with shared_programs.of_member(0):
            self._device_step.trace(of_one_replica)
        return self._run(
            self._runs, lambda batch: self._weight_update.add(batch, group, micro_batch), batch
        )

    @tf.autograph.experimental.do_not_convert
    def update(self, sums: Carry) -> None:
        """Joins the gradients of all replicas, and applies them with the optimizer.

        Args:
            sums: Those of all nodes of this process.
        """
        self.accumulator.join(sums)
        self._run(UpdateRuns(), self._weight_update.apply)

    def _run(
        self, runs: UpdateRuns, function: Callable[..., object], *arguments: TensorStructure
    ) -> TensorStructure:
        with device_programs.on_host(), device_programs.updating(runs):
            return self._strategy.run(_train_step(self._model.stock, function), args=arguments)

    def _spec_of_one_replica(self, leaf: tf.Tensor | None) -> tf.TensorSpec | None:
        if leaf is None:
            return None
        return tf.TensorSpec([leaf.shape[0] // self._group, *leaf.shape[1:]], leaf.dtype)


class DeviceStep:
    """The program of the IPUs of one replica in training: micro-batches, and the weight update.

    It never runs: it is traced for its figures, with accumulators if there are several
    micro-batches. The compiler gets the numbers of micro-batches and replicas separately.

    Args:
        strategy: An IPU strategy.
        model: A built and compiled model.
        accumulation: Micro-batches of an update, and how their gradients are reduced.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: ModelAdapter,
        accumulation: GradientAccumulationOptions,
    ) -> None:
        self._strategy = strategy
        self._model = model
        self._weight_update: WeightUpdate | None = None
        if accumulation.steps_per_replica > 1:
            with placeholder_variables():
                self._weight_update = WeightUpdate(model, accumulation, Replicas())

    def trace(self, batch_spec: SpecStructure) -> None:
        """Traces the step; the strategy keeps its program.

        Args:
            batch_spec: Shapes and types of a micro-batch.

        Raises:
            IPUOutOfMemoryError: The program does not fit on a tile.
            UnsupportedOpcodeError: An operation has no cost on the machine.
            UncompilableProgram: The step cannot be compiled at all.
        """
        with device_programs.for_figures():
            if self._weight_update is None:
                step = run_with(self._strategy, self._model.step("train_step"))
                tf.function(step, autograph=False).get_concrete_function(batch_spec)
                return
            run = functools.partial(self._run, self._weight_update)
            number = tf.TensorSpec((), tf.int32)
            tf.function(run, autograph=False).get_concrete_function(batch_spec, number)

    def _run(
        self, weight_update: WeightUpdate, batch: TensorStructure, micro_batch: tf.Tensor
    ) -> TensorStructure:
        def step_and_update(batch: TensorStructure) -> TensorStructure:
            weight_update.note_sums()
            logs = weight_update.add(batch, tf.constant(0), micro_batch)
            weight_update.apply()
            return logs

        with device_programs.accumulating_in(weight_update.accumulator.sums):
            return self._strategy.run(
                _train_step(self._model.stock, step_and_update), args=(batch,)
            )


def _train_step(model: object, function: Callable[..., object]) -> types.MethodType:
    """Returns a function as a train step of a model, so that its program has that name."""

    def train_step(model: object, *arguments: TensorStructure) -> object:
        del model
        return function(*arguments)

    return types.MethodType(train_step, model)
