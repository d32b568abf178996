"""The methods that tf_keras calls on a model, which the IPU's loop and files replace."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tf_keras
from keras import tree

from ipu_tf.internals import patches
from ipu_tf.internals.autograph import autograph
from ipu_tf.internals.keras import register_mappings_in
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.internals.tf_keras import (
    TfKerasTensor,
    as_array,
    counter_of,
    is_compiled,
    open_layers,
    steps_variable_of,
)
from ipu_tf.keras.adapters.loops import Logs
from ipu_tf.keras.adapters.models import adapter_of
from ipu_tf.keras.data.array_names import ROLES
from ipu_tf.keras.data.lengths import positive_integer
from ipu_tf.keras.deployment.model_pipeline import check_stages_of_built
from ipu_tf.keras.loop.execution import batch_spec
from ipu_tf.keras.loop.method_data import STEP_OF_METHOD
from ipu_tf.keras.loop.step_checks import is_built_for, runs_on_ipu
from ipu_tf.keras.saving.whole_files import FilePath, files_of, written_by
from ipu_tf.keras.steps.overrides import of_loop
from ipu_tf.keras.steps.own_steps import build_by_tracing
from ipu_tf.keras.tf_keras.loop_adapter import IN_METHODS, EpochReader
from ipu_tf.keras.tf_keras.options_in_files import WRITING
from ipu_tf.keras.training_hooks import LoopFunctionKind, TrainingHooks
from ipu_tf.keras.training_state import LoopFunction
from ipu_tf.runtime.tracing import hooks as tracing_hooks
from ipu_tf.strategy import IPUStrategy
from ipu_tf.strategy.infeed_iterator import stock_iterators_in_scopes

_COMPILE = inspect.signature(tf_keras.Model.compile)


def _on_ipu(name: str) -> Callable[..., object]:
    """Returns the method of tf_keras of that name with data and model prepared for the IPU."""
    _, *names = inspect.signature(getattr(tf_keras.Model, name)).parameters

    @functools.wraps(getattr(tf_keras.Model, name))
    def call(self: TfKerasHooks, *args: object, **kwargs: object) -> object:
        stock = getattr(super(TfKerasHooks, self), name)
        if not runs_on_ipu(self, made_in_scope=self._made_in_scope):
            return stock(*args, **kwargs)
        args = (*map(_with_arrays, names, args), *args[len(names) :])
        kwargs = {role: _with_arrays(role, part) for role, part in kwargs.items()}
        prepared = self.ipu_training_loop.prepared(self, name, args, kwargs)
        in_methods = patches.installed(IN_METHODS)
        with stock_iterators_in_scopes(), in_methods, prepared as arguments:
            if name.endswith("_on_batch"):
                _build_for_batch(self, STEP_OF_METHOD[name], arguments)
            return stock(**arguments)

    return call


def _with_arrays(role: str, argument: object) -> object:
    """Returns the argument of that name, data with arrays for lists of numbers."""
    if role in ROLES:
        return as_array(argument)
    if role == "validation_data" and isinstance(argument, tuple):
        return tuple(map(as_array, argument))
    return argument


def _build_for_batch(model: TfKerasHooks, step: str, arguments: Mapping[str, Any]) -> None:
    """Builds what a step on one batch of arrays uses, which tf_keras makes while it runs."""
    parts = [arguments.get(role) for role in ROLES]
    while parts[-1] is None:  # A step of the model's own takes as many parts as are given.
        parts.pop()
    batch = batch_spec(tuple(parts))
    are_arrays = all(spec is not None for spec in tree.flatten(batch_spec(parts[0])))
    if are_arrays and not is_built_for(model, step):
        build_by_tracing(model, step, batch)


def _of_files(name: str) -> Callable[..., object]:
    """Returns the method of tf_keras of that name as work of files."""

    @functools.wraps(getattr(tf_keras.Model, name))
    def call(self: TfKerasHooks, *args: object, **kwargs: object) -> object:
        with files_of(self, name):
            return getattr(super(TfKerasHooks, self), name)(*args, **kwargs)

    return call


class TfKerasHooks(TrainingHooks, tf_keras.Model):
    """A model of tf_keras whose loop runs on the IPU and whose files keep its options."""

    fit = _on_ipu("fit")
    evaluate = _on_ipu("evaluate")
    predict = _on_ipu("predict")
    train_on_batch = _on_ipu("train_on_batch")
    test_on_batch = _on_ipu("test_on_batch")
    predict_on_batch = _on_ipu("predict_on_batch")

    load_weights = _of_files("load_weights")
    export = _of_files("export")

    @functools.wraps(tf_keras.Model.build)  # It marks it as one that calls do not use.
    def build(self, input_shape: object = None) -> None:
        """Makes the weights for inputs of a shape; see `tf_keras.Model.build`.

        Args:
            input_shape: As in `tf_keras.Model.build`, or `Input` objects: the model is called on
                them, so that its inputs have their types.

        Raises:
            ValueError: Only some layers of a subclassed model are in `PipelineStage` scopes.
        """
        parts = tf.nest.flatten(input_shape)
        with tracing_hooks.building():
            if parts and all(isinstance(part, TfKerasTensor) for part in parts):
                self(input_shape)
            else:
                super().build(input_shape)
        # Within a call, a `build` of the script calls this one.
        if not open_layers() and self.ipu_training_state.may_pipeline(self):
            check_stages_of_built(self)

    @functools.wraps(tf_keras.Model.save_weights)
    def save_weights(
        self,
        filepath: FilePath,
        overwrite: bool = True,
        save_format: str | None = None,
        options: tf.train.CheckpointOptions | None = None,
    ) -> None:
        """Writes the weights; see `tf_keras.Model.save_weights`."""
        with written_by(self, "save_weights", filepath, is_file=overwrite) as path:
            super().save_weights(path, overwrite, save_format, options)

    @functools.wraps(tf_keras.Model.save)
    def save(
        self,
        filepath: FilePath,
        overwrite: bool = True,
        save_format: str | None = None,
        **kwargs: object,
    ) -> None:
        """Writes the model with its options; see `tf_keras.Model.save`."""
        target = written_by(self, "save", filepath, is_file=overwrite)
        with target as path, patches.installed(WRITING):
            super().save(path, overwrite, save_format, **kwargs)

    def compile(self, *args: object, **kwargs: object) -> None:
        """Compiles the model; see `tf_keras.Model.compile`."""
        call = _COMPILE.bind(self, *args, **kwargs)
        steps = call.arguments.get("steps_per_execution")
        if steps is not None:
            call.arguments["steps_per_execution"] = self._checked_steps(steps)
        super().compile(*call.args[1:], **call.kwargs)

    def compile_from_config(self, config: Mapping[str, object]) -> None:
        """Compiles a model as a file says: tf_keras takes our `compile` for that of a script."""
        if self.__class__.compile is not TfKerasHooks.compile:
            super().compile_from_config(config)
            return
        self.compile(**tf_keras.saving.deserialize_keras_object(config))
        if isinstance(self.optimizer, tf_keras.optimizers.Optimizer) and self.built:
            self.optimizer.build(self.trainable_variables)

    @property
    def compiled(self) -> bool:  # type: ignore[override] # That of tf_keras cannot be set, either.
        """Whether `compile` was called."""
        return is_compiled(self)

    @property
    def steps_per_execution(self) -> int:
        """Steps that one call of the device runs; `compile` sets them."""
        variable = steps_variable_of(self)
        with tf.init_scope():  # Programs are named for it while they are traced.
            return 1 if variable is None else int(variable.value().numpy())

    @steps_per_execution.setter
    def steps_per_execution(self, steps: object) -> None:
        tf_keras.Model.steps_per_execution.fset(self, self._checked_steps(steps))

    def _checked_steps(self, steps: object) -> int:
        name = f"`compile` of a {type(self).__name__} model: `steps_per_execution`"
        return positive_integer(steps, name)

    @of_loop
    def predict_step(self, data: TensorStructure) -> TensorStructure:
        """Returns the predictions for a batch; see `tf_keras.Model.predict_step`."""
        if not isinstance(self.distribute_strategy, IPUStrategy):
            return super().predict_step(data)
        with autograph():
            predictions = super().predict_step(data)
        register_mappings_in(predictions)
        return predictions

    def _validate_and_get_metrics_result(self, logs: Logs) -> Logs:
        """Returns the logs of an epoch.

        With replicas these are the reduced logs: the model's own metrics are the last replica's.
        """
        if self.ipu_training_loop.functions.are_replicated:
            return logs
        return super()._validate_and_get_metrics_result(logs)

    def _device_function(self, kind: LoopFunctionKind) -> LoopFunction:
        """Returns a new function that reads an epoch's batches for one execution on the IPU."""
        run = super()._device_function(kind)
        function = run if kind != "predict" else lambda iterator: run([next(iterator)])
        counter = counter_of(self, f"{kind}_step")
        return EpochReader(function, lambda: self.steps_per_execution, counter)

    def _refresh_functions(self) -> None:
        """Adopts optimizers that were set since, and drops the functions that are stale."""
        adapter_of(self).adopt_optimizers()
        super()._refresh_functions()
