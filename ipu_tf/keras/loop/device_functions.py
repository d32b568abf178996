"""The functions of Keras' training loop, and the replicas that run them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from ipu_tf import config, scopes
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.keras.adapters.models import adapter_of
from ipu_tf.keras.deployment.model_pipeline import (
    accumulation_of_model,
    pipeline_of_model,
    replicas_on_device,
)
from ipu_tf.keras.loop import execution
from ipu_tf.keras.loop.device_loop import DeviceLoop
from ipu_tf.keras.loop.execution import ExecutionFunction
from ipu_tf.keras.loop.step_results import StepResults
from ipu_tf.keras.loop.update_checks import parts_of_batch
from ipu_tf.keras.replication import replica_state
from ipu_tf.keras.replication.replica_logs import of_all_instances, reduced_logs
from ipu_tf.keras.replication.replicas import Replicas, replicas_of
from ipu_tf.keras.steps.device_function import run_with
from ipu_tf.keras.steps.own_steps import step_of_loop
from ipu_tf.keras.steps.training_steps import TrainingSteps
from ipu_tf.keras.training_state import LoopFunction, StatefulModel, drop_functions
from ipu_tf.processes.instances import instances


class DeviceFunctions:
    """Makes the functions that Keras' loop calls; each call is one execution of the device.

    A step is `train_step`, `test_step` or `predict_step`; `strategy.run` turns it into a program
    of the device. A changed device configuration makes new functions.

    With `jit_compile=True` XLA compiles the loop from its first step on, if it gains time with the
    step's operations; see `jitting`.

    An object makes the functions of one model, which its methods get as an argument.

    Attributes:
        results: The results of steps, for callbacks that are called once a step.
        replicas: The replicas that run the functions, None before the first is made.
    """

    def __init__(self) -> None:
        self.results = StepResults()
        self._made_for: tuple[object, ...] | None = None
        self.replicas: Replicas | None = None
        self._replicated_for: tuple[object, ...] | None = None

    @property
    def are_replicated(self) -> bool:
        """Whether several replicas run the functions, those of other instances as well."""
        return self.replicas is not None and self.replicas.total > 1

    def reset_metrics(self) -> None:
        """Gives every replica the metrics of the model, which were just reset."""
        for replicas in (self.replicas, self.replicas and self.replicas.own):
            if replicas is not None and replicas.metrics is not None:
                replicas.metrics.broadcast()

    def train_function(self, model: StatefulModel) -> LoopFunction:
        """Returns a new function that runs one execution of training."""
        loop = self._training_loop(model)
        return execution.iterator_function(
            self._execution(model, "train_step", loop, execution.last_step),
            parts_of_batch=functools.partial(parts_of_batch, model),
            join_logs=functools.partial(_joined_logs, model),
        )

    def test_function(self, model: StatefulModel) -> LoopFunction:
        """Returns a new function that runs one execution of evaluation."""
        loop = self._loop(model, "test_step")
        return execution.iterator_function(
            self._execution(model, "test_step", loop, execution.last_step),
            join_logs=functools.partial(_joined_logs, model),
        )

    def predict_function(self, model: StatefulModel) -> LoopFunction:
        """Returns a new function that runs one execution of prediction."""
        loop = self._loop(model, "predict_step")
        return execution.predict_function(
            self._execution(model, "predict_step", loop, execution.concatenated)
        )

    def drop_stale(self, model: StatefulModel) -> None:
        """Drops functions that were made for another configuration or under another strategy."""
        numerics = config.device_configuration(), scopes.current(), model.distribute_strategy
        if self._made_for not in (None, numerics):
            drop_functions(model)
        self._made_for = numerics

    def _loop(self, model: StatefulModel, step: str) -> DeviceLoop:
        run_step = run_with(model.distribute_strategy, step_of_loop(model, step))
        replicas = self._replication(model)
        return DeviceLoop(run_step, replicas.own or replicas)

    def _training_loop(self, model: StatefulModel) -> DeviceLoop:
        replicas, accumulation = self._replication(model), accumulation_of_model(model)
        if accumulation.steps_per_replica == 1 and replicas.total == 1:
            return self._loop(model, "train_step")
        training = TrainingSteps(
            model.distribute_strategy, adapter_of(model), accumulation, replicas
        )
        return DeviceLoop(
            training.step,
            replicas,
            training=training,
            micro_batches=accumulation.steps_per_replica,
        )

    def _execution(
        self,
        model: StatefulModel,
        step: str,
        loop: DeviceLoop,
        summarise: Callable[[TensorStructure], TensorStructure],
    ) -> ExecutionFunction:
        return ExecutionFunction(
            loop,
            program=f"{model.name}.{step}",
            replicas=self._replication(model).local,
            steps=lambda: model.steps_per_execution,
            engine=_engine_of(model),
            summarise=summarise,
            results=self.results if calls_back_for_steps(model, step) else None,
        )

    def _replication(self, model: StatefulModel) -> Replicas:
        """Returns the model's replication; the state of replicas lasts as long as its variables.

        Raises:
            ValueError: The configured group size does not divide the number of replicas.
        """
        count = replicas_on_device(model)
        group = config.device_configuration().batch_norm_replica_group_size
        if count * instances().count == 1:
            group = 1
        replica_state.check_shares(count)
        replica_state.check_group(count, group)
        adapter = adapter_of(model)
        variables = tuple(id(variable) for variable in adapter.state_variables)
        metrics = tuple(id(variable) for variable in adapter.metric_variables)
        key = (count, group, variables, metrics)
        if self.replicas is None or self._replicated_for != key:
            self.replicas, self._replicated_for = replicas_of(adapter, count, group), key
        return self.replicas


def calls_back_for_steps(model: StatefulModel, step: str) -> bool:
    """Returns whether callbacks are called once a step, not once an execution.

    A pipeline that sums its outfeed has logs only once a weight update, but all its predictions.

    Args:
        model: The model.
        step: The step that is run, such as `train_step`.
    """
    if not model.ipu_training_state.asynchronous_callbacks:
        return False
    pipeline = pipeline_of_model(model)
    is_summed = pipeline is not None and pipeline.options.accumulate_outfeed
    return step == "predict_step" or not is_summed


def _engine_of(model: StatefulModel) -> str:
    """Returns what runs the loops of a model: what is configured, else what the model asks for."""
    engine = config.device_configuration().engine
    return "xla" if engine == "auto" and model.jit_compile else engine


def _joined_logs(model: StatefulModel, logs: Mapping[str, TensorStructure]) -> TensorStructure:
    """Returns the logs that callbacks see from those of the replicas here."""
    everywhere = of_all_instances(logs, name=f"logs of {model.name}")
    return reduced_logs(everywhere, model.ipu_training_state.replication.metric_reduction)
