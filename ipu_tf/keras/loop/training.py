"""Keras' training loop on the IPU: checked data and programs of static shape."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import keras

from ipu_tf import spans
from ipu_tf.infeed_iterator import stock_dataset_iterators
from ipu_tf.internals.keras import set_validation_steps
from ipu_tf.keras.data import feeding, lengths, preparation
from ipu_tf.keras.data.epoch_steps import SINGLE_STEP
from ipu_tf.keras.data.infeed import Infeed
from ipu_tf.keras.data.lengths import DataUse
from ipu_tf.keras.data.preparation import Data
from ipu_tf.keras.loop import cost_line, execution
from ipu_tf.keras.loop.device_functions import DeviceFunctions
from ipu_tf.keras.loop.host_marks import marked_callbacks
from ipu_tf.keras.loop.stepwise_callbacks import StepwiseCallbackList
from ipu_tf.keras.pipeline.pipeline import Pipeline
from ipu_tf.keras.saving.checkpoint_marks import MarkedFiles
from ipu_tf.keras.steps import overrides, own_steps

logger = logging.getLogger(__name__)

_LOOP_OF_ITS_OWN = (
    "Keras models on the IPU run a loop of their own, which reads the data and calls the steps."
)

_FUNCTIONS = {
    "fit": ("train_step", "make_train_function"),
    "evaluate": ("test_step", "make_test_function"),
    "predict": ("predict_step", "make_predict_function"),
    "train_on_batch": ("train_step", "make_train_function"),
    "test_on_batch": ("test_step", "make_test_function"),
    "predict_on_batch": ("predict_step", "make_predict_function"),
}
"""The functions that each method runs as a part of the IPU's loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """The call of Keras' method once its data is prepared.

    Attributes:
        arguments: Its arguments.
        infeed: The infeed of the device, None for a single batch.
    """

    arguments: dict[str, Any]
    infeed: Infeed | None = None


def _on_ipu(method: Callable[..., _Call]) -> Callable[..., Any]:
    """Turns a method that prepares a call of Keras' method into one that replaces it.

    `method` gets all arguments of Keras' method of the same name, defaults included, as a dict.
    `shuffle` is None unless it was given. Strategies other than an IPU's do not call `method`.
    """
    name = method.__name__
    stock = getattr(keras.Model, name)
    signature = inspect.signature(stock)

    @functools.wraps(stock)
    def call(self: IPUTrainer, *args: Any, **kwargs: Any) -> Any:
        next_method = getattr(super(IPUTrainer, self), name)
        if not self._runs_on_ipu():
            return next_method(*args, **kwargs)
        step, make_function = _FUNCTIONS[name]
        overrides.check_not_overridden(self, IPUTrainer, make_function, why=_LOOP_OF_ITS_OWN)
        self._check_step(step)
        if not name.startswith("predict"):
            overrides.check_compiled(self, name)
        bound = signature.bind(self, *args, **kwargs)
        if "shuffle" in signature.parameters:
            bound.arguments.setdefault("shuffle", None)
        bound.apply_defaults()
        arguments = {key: value for key, value in bound.arguments.items() if key != "self"}
        arguments |= arguments.pop("kwargs", {})
        # Keras reads its iterators eagerly in some places.
        with stock_dataset_iterators(), self._about_to_run(step):
            prepared = method(self, arguments)
            with self._executing(prepared) as arguments:
                return next_method(**arguments)

    return call


class IPUTrainer(DeviceFunctions, MarkedFiles):
    """A Keras model whose training loop runs on the IPU and keeps its rules.

    The data of `fit`, `evaluate`, `predict` and the `*_on_batch` methods is checked and converted
    before Keras sees it; the device reads it from an infeed. `DeviceFunctions` makes the functions
    that run on it.
    """

    _said: frozenset[str] = frozenset()

    @_on_ipu
    def fit(self, arguments: dict[str, Any]) -> _Call:
        """See `keras.Model.fit`; `ipu_tf.keras.data` has the rules for the data."""
        training, validation = preparation.training_and_validation(arguments, model=self.name)
        infeed = self._infeed(
            training,
            shuffle=arguments["shuffle"],
            class_weight=arguments["class_weight"],
            method="fit",
            batch_size=arguments["batch_size"],
            steps=arguments["steps_per_epoch"],
            epochs=max(1, arguments["epochs"] - arguments["initial_epoch"]),
        )
        if validation is not None:
            validation_infeed = self._infeed(
                validation,
                method="fit",
                part="validation data",
                batch_size=arguments["validation_batch_size"] or arguments["batch_size"],
                steps=arguments["validation_steps"],
            )
            arguments |= {
                "validation_data": validation_infeed,
                "validation_split": 0.0,
                "validation_steps": validation_infeed.schedule.steps,
            }
        if arguments["validation_split"] and arguments["validation_data"] is None:
            return _Call(arguments=arguments)  # Keras raises the error of the split.
        self._check_training(infeed)
        moved = ("y", "sample_weight", "class_weight", "batch_size", "validation_batch_size")
        read = {"x": infeed, "shuffle": False, "steps_per_epoch": infeed.schedule.steps}
        return _Call(arguments=arguments | dict.fromkeys(moved) | read, infeed=infeed)

    @_on_ipu
    def evaluate(self, arguments: dict[str, Any]) -> _Call:
        """See `keras.Model.evaluate`; `ipu_tf.keras.data` has the rules for the data."""
        infeed = arguments["x"]
        if isinstance(infeed, Infeed):  # The validation data of `fit`.
            set_validation_steps(self, infeed.schedule.steps_per_execution)
            return _Call(arguments=arguments, infeed=infeed)
        infeed = self._infeed(
            Data.of(arguments),
            method="evaluate",
            batch_size=arguments["batch_size"],
            steps=arguments["steps"],
        )
        moved = dict.fromkeys(("y", "sample_weight", "batch_size"))
        read = {"x": infeed, "steps": infeed.schedule.steps}
        return _Call(arguments=arguments | moved | read, infeed=infeed)

    @_on_ipu
    def predict(self, arguments: dict[str, Any]) -> _Call:
        """See `keras.Model.predict`; `ipu_tf.keras.data` has the rules for the data."""
        infeed = self._infeed(
            Data.of(arguments),
            method="predict",
            batch_size=arguments["batch_size"],
            steps=arguments["steps"],
        )
        read = {"x": infeed, "batch_size": None, "steps": infeed.schedule.steps}
        return _Call(arguments=arguments | read, infeed=infeed)

    @_on_ipu
    def train_on_batch(self, arguments: dict[str, Any]) -> _Call:
        """See `keras.Model.train_on_batch`; the batch holds a whole weight update."""
        self._check_update()
        return self._on_batch(arguments, method="train_on_batch")

    @_on_ipu
    def test_on_batch(self, arguments: dict[str, Any]) -> _Call:
        """See `keras.Model.test_on_batch`."""
        return self._on_batch(arguments, method="test_on_batch")

    @_on_ipu
    def predict_on_batch(self, arguments: dict[str, Any]) -> _Call:
        """See `keras.Model.predict_on_batch`."""
        use = DataUse(model=self.name, method="predict_on_batch")
        data = self._prepare(Data.of(arguments), preparation.prepare_batch, use)
        self._check_inference_steps(1)
        return _Call(arguments=arguments | {"x": data.x})

    def _infeed(
        self, data: Data, *, shuffle: Any = False, class_weight: Any = None, **use: Any
    ) -> Infeed:
        """Returns the infeed of a method's data; `use` gives the fields of `DataUse`."""
        wanted = DataUse(model=self.name, **use)
        if wanted.steps is not None:
            argument = f"{wanted.subject}: `{wanted.steps_argument}`"
            steps = lengths.positive_integer(wanted.steps, argument)
            wanted = dataclasses.replace(wanted, steps=steps)
        source = feeding.source(
            self._prepare(data, preparation.prepare, wanted),
            wanted,
            shuffle=shuffle,
            class_weight=class_weight,
        )
        step, _ = _FUNCTIONS[wanted.method]
        if not self._is_built_for(step):
            # Only a built model knows its pipeline stages, and so how many replicas fit.
            self._build_for(execution.batch_spec(source.dataset.element_spec), step)
            self._check_step(step)
        wanted = dataclasses.replace(
            wanted,
            replicas=self._replication_factor(),
            steps_per_execution=self.steps_per_execution,
        )
        depth = self._infeed_options.prefetch_depth
        infeed = feeding.infeed(source, wanted, prefetch_depth=depth)
        if wanted.method != "fit" or wanted.part:
            self._check_inference_steps(infeed.schedule.steps_per_execution)
        return infeed

    def _build_for(self, batch: Any, step: str) -> None:
        """Builds the model for batches of these shapes and types."""
        if step == "predict_step" or self._has_own(step):
            self._seen_inputs, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
            own_steps.build_by_tracing(self, step, batch)
        else:
            self._maybe_symbolic_build(data_batch=batch)

    def _on_batch(self, arguments: dict[str, Any], *, method: str) -> _Call:
        use = DataUse(model=self.name, method=method)
        data = self._prepare(Data.of(arguments), preparation.prepare_batch, use)
        if method == "test_on_batch":
            self._check_inference_steps(1)
        return _Call(arguments=arguments | data.arguments)

    def _prepare(self, data: Data, prepare: Callable[[Data, DataUse], Data], use: DataUse) -> Data:
        prepared = prepare(data, use)
        if prepared.narrowed:
            self._say_once(
                "the IPU has no 64-bit types, so data is converted, after a check that it fits: %s",
                "; ".join(prepared.narrowed),
            )
        return prepared

    def _say_once(self, message: str, *arguments: Any) -> None:
        """Logs a warning, once for this model."""
        if message not in self._said:
            self._said |= {message}
            logger.warning(
                f"Model '%s': {message}. This is said once for a model.", self.name, *arguments
            )

    def _check_training(self, infeed: Infeed) -> None:
        """Checks that executions hold whole weight updates, and logs the samples of an update.

        Raises:
            RuntimeError: They do not.
            ValueError: The optimizer wants to compute gradients itself, or the pipeline has no
                number of micro-batches.
        """
        pipeline = self._check_update()
        accumulated = self._accumulation().steps_per_replica
        steps = infeed.schedule.steps_per_execution
        if steps % accumulated:
            raise RuntimeError(
                f"The {'pipelined ' if pipeline else ''}model has been configured to use gradient "
                "accumulation for training, however the current `steps_per_execution` "
                f"value (set to {steps}) is not divisible by "
                f"`gradient_accumulation_steps_per_replica` ({accumulated}). Model '{self.name}': "
                f"compile it with a multiple of {accumulated}."
            )
        logger.info(
            "Model '%s': a weight update sees %d samples: batches of %d, %d micro-batches, %d "
            "replicas.",
            self.name,
            infeed.batch_size * accumulated * infeed.replicas,
            infeed.batch_size,
            accumulated,
            infeed.replicas,
        )
        if steps == 1:
            logger.info(
                "Model '%s' runs one step per call of the device. A larger `steps_per_execution` "
                "in `compile` saves time.",
                self.name,
            )

    def _check_update(self) -> Pipeline | None:
        """Returns the checked pipeline that is about to train, None if the model has none.

        Raises:
            ValueError: The optimizer wants to compute gradients itself, or the pipeline has no
                number of micro-batches.
        """
        pipeline = self._checked_training_pipeline()
        if pipeline is not None or self._batches_of_update() > 1:
            overrides.check_optimizer(self.optimizer, self.name)
        return pipeline

    @contextlib.contextmanager
    def _executing(self, call: _Call) -> Iterator[dict[str, Any]]:
        """Sets the steps of an execution during a call; yields the call's arguments."""
        self._check_not_in_callback()
        compiled_steps = self.steps_per_execution
        schedule = call.infeed.schedule if call.infeed is not None else SINGLE_STEP
        with contextlib.ExitStack() as stack:
            arguments = call.arguments
            if call.infeed is not None:
                callbacks = stack.enter_context(self._callbacks(arguments, call.infeed))
                arguments = arguments | {"callbacks": callbacks}
            self.steps_per_execution = schedule.steps_per_execution
            try:
                yield arguments
            finally:
                self.steps_per_execution = compiled_steps

    @contextlib.contextmanager
    def _callbacks(self, arguments: dict[str, Any], infeed: Infeed) -> Iterator[Any]:
        """Yields the callbacks of a method, as a list of our own if Keras' would not do."""
        callbacks = arguments["callbacks"]
        with contextlib.ExitStack() as stack:
            if not isinstance(callbacks, keras.callbacks.CallbackList):
                if "epochs" in arguments and cost_line.is_printed(arguments["verbose"]):
                    own = keras.tree.flatten(callbacks) if callbacks else []
                    callbacks = [*own, cost_line.CostLine(own)]
                    arguments = arguments | {"callbacks": callbacks}
                if self._calls_back_for_steps():
                    callbacks = self._stepwise_callbacks(arguments, infeed)
                    stack.callback(callbacks.close)
                elif spans.are_recorded():
                    settings = self._settings_of_callbacks(arguments, infeed)
                    callbacks = keras.callbacks.CallbackList(callbacks, **settings)
            if spans.are_recorded():
                stack.enter_context(marked_callbacks(callbacks))
            yield callbacks

    def _check_not_in_callback(self) -> None:
        """Checks that no callback of the model's steps runs the model while it runs.

        Raises:
            RuntimeError: A callback does.
        """
        if self._step_results.is_read_here():
            raise RuntimeError(
                f"Model '{self.name}' is busy: a callback that is called once a step runs beside "
                "the device, and cannot run the model, too. Run it at the end of an epoch, or call "
                "`set_asynchronous_callbacks(False)`."
            )

    def _stepwise_callbacks(
        self, arguments: dict[str, Any], infeed: Infeed
    ) -> StepwiseCallbackList:
        """Returns callbacks that are called once a step."""
        return StepwiseCallbackList(
            arguments["callbacks"],
            results=self._step_results,
            steps_per_execution=lambda: self.steps_per_execution,
            replicas=infeed.replicas,
            reduction=self._replication_options.metric_reduction,
            **self._settings_of_callbacks(arguments, infeed),
        )

    def _settings_of_callbacks(self, arguments: dict[str, Any], infeed: Infeed) -> dict[str, Any]:
        """Returns the arguments of `keras.callbacks.CallbackList` in the method that is called."""
        return {
            "add_history": "epochs" in arguments,
            "add_progbar": arguments["verbose"] != 0,
            "verbose": arguments["verbose"],
            "epochs": arguments.get("epochs", 1),
            "steps": infeed.schedule.steps,
            "model": self,
        }
