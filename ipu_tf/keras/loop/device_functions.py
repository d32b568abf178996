"""The functions of Keras' training loop, and the replicas that run them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ipu_tf import config, scopes
from ipu_tf.internals.keras import element_spec_of
from ipu_tf.keras.loop import execution
from ipu_tf.keras.loop.device_loop import DeviceLoop
from ipu_tf.keras.loop.execution import ExecutionFunction
from ipu_tf.keras.loop.step_results import StepResults
from ipu_tf.keras.replication import replica_state
from ipu_tf.keras.replication.replicas import Replicas, replicas_of, run_with
from ipu_tf.keras.saving.model_files import SavedExtensions
from ipu_tf.keras.steps.own_steps import OwnSteps, adopt_optimizers
from ipu_tf.keras.steps.training_steps import TrainingSteps
from ipu_tf.strategy import IPUStrategy


class DeviceFunctions(OwnSteps, SavedExtensions):
    """Makes the functions that Keras' loop calls; each call is one execution of the device.

    A step is `train_step`, `test_step` or `predict_step`; `strategy.run` turns it into a program
    of the device. A changed device configuration makes new functions.

    `jit_compile=True` is accepted and has no effect: the step is a program of the device anyway.
    """

    _is_called_for_training = False
    _made_in_scope = False
    _made_for: tuple[Any, ...] | None = None
    _replicas: Replicas | None = None
    _replicated_for: tuple[Any, ...] | None = None

    def reset_metrics(self) -> None:
        """Resets the metrics of every replica."""
        super().reset_metrics()
        if self._replicas is not None and self._replicas.metrics is not None:
            self._replicas.metrics.broadcast()

    def make_train_function(self, force: bool = False) -> Callable[[Any], Any]:
        """Returns the function that runs one execution of training, made if needed or forced."""
        if not self._runs_on_ipu():
            return super().make_train_function(force)
        self._drop_stale_functions()
        if self.train_function is None or force:
            self.train_function = execution.iterator_function(
                self._execution("train_step", self._training_loop(), self._last_logs()),
                parts_of_batch=self._parts_of_batch,
            )
        return self.train_function

    def make_test_function(self, force: bool = False) -> Callable[[Any], Any]:
        """Returns the function that runs one execution of evaluation, made if needed or forced."""
        if not self._runs_on_ipu():
            return super().make_test_function(force)
        self._drop_stale_functions()
        if self.test_function is None or force:
            loop = DeviceLoop(
                run_with(self.distribute_strategy, self._step_of_loop("test_step")),
                self._replicated(),
            )
            self.test_function = execution.iterator_function(
                self._execution("test_step", loop, self._last_logs())
            )
        return self.test_function

    def make_predict_function(self, force: bool = False) -> Callable[[list[Any]], Any]:
        """Returns the function that runs one execution of prediction, made if needed or forced."""
        if not self._runs_on_ipu():
            return super().make_predict_function(force)
        self._drop_stale_functions()
        if self.predict_function is None or force:
            loop = DeviceLoop(
                run_with(self.distribute_strategy, self._step_of_loop("predict_step")),
                self._replicated(),
            )
            self.predict_function = execution.predict_function(
                self._execution("predict_step", loop, execution.concatenated)
            )
        return self.predict_function

    def _training_loop(self) -> DeviceLoop:
        strategy, replicas = self.distribute_strategy, self._replicated()
        accumulation = self._accumulation()
        if accumulation.steps_per_replica == 1 and replicas.count == 1:
            return DeviceLoop(run_with(strategy, self._step_of_loop("train_step")), replicas)
        training = TrainingSteps(strategy, self, accumulation, replicas)
        return DeviceLoop(
            training.step,
            replicas,
            training=training,
            micro_batches=accumulation.steps_per_replica,
        )

    @functools.cached_property
    def _step_results(self) -> StepResults:
        """Returns the results of steps for callbacks that are called once a step."""
        return StepResults()

    def _calls_back_for_steps(self) -> bool:
        """Returns whether callbacks are called once a step."""
        return self._asynchronous_callbacks and not self._logs_once_an_update()

    def _batches_of_update(self) -> int:
        """Returns the number of batches in a weight update, over all replicas."""
        return self._accumulation().steps_per_replica * self._replication_factor()

    def _parts_of_batch(self, samples: int) -> int | None:
        """Returns the number of steps that training splits a single batch into, None for no split.

        Args:
            samples: Samples of the batch.

        Raises:
            ValueError: The micro-batches of an update would differ in size.
        """
        steps, replicas = self._accumulation().steps_per_replica, self._replication_factor()
        if steps * replicas == 1:
            return None
        if samples % (steps * replicas):
            raise ValueError(
                f"`train_on_batch` of model '{self.name}': a weight update takes "
                f"{steps * replicas} micro-batches of one size, {steps} on each of {replicas} "
                f"replicas. Pass a batch of a multiple of {steps * replicas} samples. Received: "
                f"{samples} samples."
            )
        return steps

    def _execution(
        self, step: str, loop: DeviceLoop, summarise: Callable[[Any], Any]
    ) -> ExecutionFunction:
        return ExecutionFunction(
            loop,
            program=f"{self.name}.{step}",
            replicas=self._replicated().count,
            steps=lambda: self.steps_per_execution,
            summarise=summarise,
            results=self._step_results if self._calls_back_for_steps() else None,
        )

    def _last_logs(self) -> Callable[[Any], Any]:
        return execution.last_logs(self._replication_options.metric_reduction)

    def _replication_factor(self) -> int:
        """Returns the number of replicas of this model on its device."""
        pipeline = self._pipeline()
        ipus = 1 if pipeline is None else pipeline.ipus_of_replica
        return replica_state.replication_factor(self.distribute_strategy, ipus)

    def _replicated(self) -> Replicas:
        """Returns the model's replication; the state of replicas lasts as long as its variables.

        Raises:
            ValueError: The configured group size does not divide the number of replicas.
        """
        count = self._replication_factor()
        group = config.device_configuration().batch_norm_replica_group_size if count > 1 else 1
        replica_state.check_group(count, group)
        variables = tuple(id(variable) for variable in self.non_trainable_variables)
        metrics = tuple(id(variable) for variable in self.metrics_variables)
        key = (count, group, variables, metrics)
        if self._replicas is None or self._replicated_for != key:
            self._replicas, self._replicated_for = replicas_of(self, count, group), key
        return self._replicas

    def _drop_stale_functions(self) -> None:
        """Drops functions that were made for another configuration of the device."""
        numerics = config.device_configuration(), scopes.current()
        if self._made_for not in (None, numerics):
            self._drop_functions()
        self._made_for = numerics

    def _runs_on_ipu(self) -> bool:
        """Returns whether the strategy is an IPU strategy.

        Raises:
            RuntimeError: It is, but functions are to run eagerly; or it is not, but the model was
                made in the scope of an IPU strategy.
        """
        if not isinstance(self.distribute_strategy, IPUStrategy):
            self._check_made_outside()
            return False
        for cause, eager in (
            ("`run_eagerly` is True", self.run_eagerly),
            ("`tf.config.run_functions_eagerly(True)` is set", tf.config.functions_run_eagerly()),
        ):
            if eager:
                raise RuntimeError(
                    "Keras models cannot run eagerly when using `IPUStrategy`: the IPU runs "
                    f"compiled programs. For model '{self.name}', {cause}. To debug a step, use "
                    "`tf.print`, or make the model outside of the strategy's scope."
                )
        return True

    def _check_made_outside(self) -> None:
        """Checks that a model that another strategy runs was not made for an IPU.

        Raises:
            RuntimeError: The model was made for an IPU.
        """
        if self._made_in_scope:
            raise RuntimeError(
                f"Model '{self.name}' was made in the scope of an IPUStrategy, but another "
                "default graph was in force there, which has no strategy: the model would not run "
                "on the IPU. Make the model in the scope, outside of any `tf.Graph().as_default()`."
                f" Received: strategy {type(self.distribute_strategy).__name__}."
            )

    def _get_metrics_result_or_logs(self, logs: Any) -> Any:
        """Returns the logs of an epoch.

        With replicas these are the reduced logs: the model's own metrics are the last replica's.
        """
        if self._replicas is not None and self._replicas.count > 1:
            return logs
        return super()._get_metrics_result_or_logs(logs)

    def _maybe_symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        """Builds the parts of the model that are not built yet.

        Keras would read the first batch of `iterator` for its shapes alone. The specification of
        the dataset gives them without losing a batch.
        """
        strategy = self.distribute_strategy
        if isinstance(strategy, IPUStrategy):
            adopt_optimizers(self)
            if self._builds_as_it_runs():
                return
            if iterator is not None:
                data_batch = execution.batch_spec(element_spec_of(iterator))
                iterator = None
            if data_batch is not None:
                self._seen_inputs, _, _ = keras.utils.unpack_x_y_sample_weight(data_batch)
        super()._maybe_symbolic_build(iterator=iterator, data_batch=data_batch)

    def _symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        """Builds the loss and the metrics on a symbolic call of the model.

        Keras calls it for inference, also in `fit`; layers such as `RandomCrop` have other shapes
        in training.
        """
        self._is_called_for_training = self._step_about_to_run == "train_step"
        try:
            super()._symbolic_build(iterator=iterator, data_batch=data_batch)
        finally:
            self._is_called_for_training = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the model; see `keras.Layer.__call__`."""
        if self._is_called_for_training:
            kwargs["training"] = True
        return super().__call__(*args, **kwargs)
