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
from ipu_tf.keras.extensions import IPUExtensions
from ipu_tf.keras.loop.execution import batch_spec
from ipu_tf.keras.loop.method_data import STEP_OF_METHOD
from ipu_tf.keras.loop.step_checks import is_built_for, runs_on_ipu
from ipu_tf.keras.loop.training_loop import TrainingLoop
from ipu_tf.keras.saving.whole_files import FilePath, files_of, written_by
from ipu_tf.keras.steps import step_scopes
from ipu_tf.keras.steps.overrides import of_loop
from ipu_tf.keras.steps.own_steps import build_by_tracing
from ipu_tf.keras.tf_keras.loop_adapter import IN_METHODS, EpochReader
from ipu_tf.keras.tf_keras.options_in_files import WRITING
from ipu_tf.keras.training_state import LoopFunction, strategy_in_force
from ipu_tf.runtime.tracing import hooks as tracing_hooks
from ipu_tf.strategy import IPUStrategy
from ipu_tf.strategy.infeed_iterator import stock_iterators_in_scopes

_COMPILE = inspect.signature(tf_keras.Model.compile)


def _on_ipu(name: str) -> Callable[..., object]:
    """Returns the method of tf_keras of that name with data and model prepared for the IPU."""

    @functools.wraps(getattr(tf_keras.Model, name))
    def call(self: TfKerasHooks, *args: object, **kwargs: object) -> object:
        stock = getattr(super(TfKerasHooks, self), name)
        if not runs_on_ipu(self, made_in_scope=self._made_in_scope):
            return stock(*args, **kwargs)
        args, kwargs = tuple(map(as_array, args)), _with_arrays(kwargs)
        prepared = self.ipu_training_loop.prepared(self, name, args, kwargs)
        in_methods = patches.installed(IN_METHODS)
        with stock_iterators_in_scopes(), in_methods, prepared as arguments:
            if name.endswith("_on_batch"):
                _build_for_batch(self, STEP_OF_METHOD[name], arguments)
            return stock(**arguments)

    return call


def _with_arrays(arguments: Mapping[str, object]) -> dict[str, object]:
    """Returns arguments with arrays for lists of numbers, also in a tuple of validation data."""
    arrays = {name: as_array(part) for name, part in arguments.items()}
    validation = arrays.get("validation_data")
    if isinstance(validation, tuple):
        arrays["validation_data"] = tuple(map(as_array, validation))
    return arrays


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


class TfKerasHooks(IPUExtensions, tf_keras.Model):
    """A model of tf_keras whose loop runs on the IPU and whose files keep its options."""

    _made_in_scope = False

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

        Raises:
            ValueError: Only some layers of a subclassed model are in `PipelineStage` scopes.
        """
        with tracing_hooks.building():
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
    def distribute_strategy(self) -> tf.distribute.Strategy:
        """The strategy of the open scope if it is one with that of the model, else the latter."""
        return strategy_in_force(super().distribute_strategy)

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

    @functools.cached_property
    def ipu_training_loop(self) -> TrainingLoop:
        """Runs the methods of the model on the IPU."""
        return TrainingLoop()

    @of_loop
    def make_train_function(self, force: bool = False) -> LoopFunction:
        """Returns the function that runs one execution of training, made if needed or forced."""
        if not self._runs_functions_on_ipu():
            return super().make_train_function(force)
        if self.train_function is None or force:
            function = self.ipu_training_loop.functions.train_function(self)
            self.train_function = self._reading_epochs(function, "train_step")
        return self.train_function

    @of_loop
    def make_test_function(self, force: bool = False) -> LoopFunction:
        """Returns the function that runs one execution of evaluation, made if needed or forced."""
        if not self._runs_functions_on_ipu():
            return super().make_test_function(force)
        if self.test_function is None or force:
            function = self.ipu_training_loop.functions.test_function(self)
            self.test_function = self._reading_epochs(function, "test_step")
        return self.test_function

    @of_loop
    def make_predict_function(self, force: bool = False) -> LoopFunction:
        """Returns the function that runs one execution of prediction, made if needed or forced."""
        if not self._runs_functions_on_ipu():
            return super().make_predict_function(force)
        if self.predict_function is None or force:
            function = self.ipu_training_loop.functions.predict_function(self)
            self.predict_function = self._reading_epochs(
                lambda iterator: function([next(iterator)]), "predict_step"
            )
        return self.predict_function

    @of_loop
    def train_step(self, data: TensorStructure) -> TensorStructure:
        """Returns the logs of a training step; see `tf_keras.Model.train_step`."""
        if not isinstance(self.distribute_strategy, IPUStrategy):
            return super().train_step(data)
        return step_scopes.train_step(adapter_of(self), data)

    @of_loop
    def test_step(self, data: TensorStructure) -> TensorStructure:
        """Returns the logs of a step of evaluation; see `tf_keras.Model.test_step`."""
        if not isinstance(self.distribute_strategy, IPUStrategy):
            return super().test_step(data)
        return step_scopes.test_step(adapter_of(self), data)

    @of_loop
    def predict_step(self, data: TensorStructure) -> TensorStructure:
        """Returns the predictions for a batch; see `tf_keras.Model.predict_step`."""
        if not isinstance(self.distribute_strategy, IPUStrategy):
            return super().predict_step(data)
        with autograph():
            predictions = super().predict_step(data)
        register_mappings_in(predictions)
        return predictions

    def reset_metrics(self) -> None:
        """Resets the metrics of every replica."""
        super().reset_metrics()
        self.ipu_training_loop.functions.reset_metrics()

    def _validate_and_get_metrics_result(self, logs: Logs) -> Logs:
        """Returns the logs of an epoch.

        With replicas these are the reduced logs: the model's own metrics are the last replica's.
        """
        if self.ipu_training_loop.functions.are_replicated:
            return logs
        return super()._validate_and_get_metrics_result(logs)

    def _reading_epochs(self, function: LoopFunction, step: str) -> EpochReader:
        return EpochReader(function, lambda: self.steps_per_execution, counter_of(self, step))

    def _runs_functions_on_ipu(self) -> bool:
        """Returns whether the IPU runs the functions of the loop; drops those that are stale."""
        if not runs_on_ipu(self, made_in_scope=self._made_in_scope):
            return False
        adapter_of(self).adopt_optimizers()
        self.ipu_training_loop.functions.drop_stale(self)
        return True


def mark_as_made_in_scope(model: TfKerasHooks) -> None:
    """Marks a model as made in the scope of an IPU strategy, before its constructor runs."""
    object.__setattr__(model, "_made_in_scope", True)  # That of tf_keras is not ready yet.
