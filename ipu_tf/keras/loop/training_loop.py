"""Keras' training loop on the IPU: checked data and programs of static shape."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import tensorflow as tf

from ipu_tf.keras.adapters.models import adapter_of
from ipu_tf.keras.data.epoch_steps import SINGLE_STEP
from ipu_tf.keras.loop.device_functions import DeviceFunctions
from ipu_tf.keras.loop.method_callbacks import method_callbacks
from ipu_tf.keras.loop.method_data import STEP_OF_METHOD, MethodCall, MethodData
from ipu_tf.keras.loop.step_checks import check_step
from ipu_tf.keras.steps import overrides
from ipu_tf.keras.steps.own_steps import has_own
from ipu_tf.keras.training_state import StatefulModel
from ipu_tf.processes.instances import instances
from ipu_tf.strategy.infeed_iterator import stock_dataset_iterators

_LOOP_OF_ITS_OWN = (
    "Keras models on the IPU run a loop of their own, which reads the data and calls the steps."
)

_FUNCTION_OF_STEP = MappingProxyType(
    {
        "train_step": "make_train_function",
        "test_step": "make_test_function",
        "predict_step": "make_predict_function",
    }
)


class TrainingLoop:
    """Runs Keras' methods of one model on the IPU, and keeps the IPU's rules.

    The data of `fit`, `evaluate`, `predict` and the `*_on_batch` methods is checked and converted
    before Keras sees it; the device reads it from an infeed.

    A loop belongs to one model, which its methods get as an argument.

    Attributes:
        functions: Makes the functions that run executions on the device.
        building_for_training: Whether Keras builds the model for a training step just now.
    """

    def __init__(self) -> None:
        self.functions = DeviceFunctions()
        self.building_for_training = False
        self._data = MethodData()
        self._step: str | None = None

    @contextlib.contextmanager
    def prepared(
        self,
        model: StatefulModel,
        method: str,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> Iterator[dict[str, object]]:
        """Prepares the model and the data of a method; yields the arguments of Keras' method.

        Args:
            model: The model.
            method: Name of the method.
            args: The positional arguments of the call.
            kwargs: Its keyword arguments.

        Raises:
            NotImplementedError: The model has neither the step of the method nor a `call`.
            RuntimeError: The model overrides the loop, or a callback of its steps or a
                `tf.function` runs it.
            ValueError: The model is not compiled, or the data breaks a rule.
        """
        step = STEP_OF_METHOD[method]
        _check_not_in_function(model, method)
        overrides.check_not_overridden(model, _FUNCTION_OF_STEP[step], why=_LOOP_OF_ITS_OWN)
        check_step(model, step)
        if step != "predict_step":
            overrides.check_compiled(model, method)
        if not has_own(model, step):
            overrides.check_call_arguments(model, method)
        arguments = _arguments(model, method, args, kwargs)
        if "verbose" in arguments and instances().index:
            arguments["verbose"] = 0  # Instance 0 shows the progress of all.
        # Keras reads its iterators eagerly in some places.
        with stock_dataset_iterators(), self._about_to_run(step):
            call = self._data.prepare(model, method, arguments)
            with self._executing(model, step, call) as arguments:
                yield arguments

    def builds(self, model: StatefulModel) -> bool:
        """Returns whether Keras builds a model; a step of the model's own builds it as it runs."""
        return self._step is None or not has_own(model, self._step)

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """Notes that Keras builds the loss and the metrics on a symbolic call of the model.

        Keras calls the model for inference, also in `fit`; layers such as `RandomCrop` have other
        shapes in training.
        """
        self.building_for_training = self._step == "train_step"
        try:
            yield
        finally:
            self.building_for_training = False

    @contextlib.contextmanager
    def _about_to_run(self, step: str) -> Iterator[None]:
        """Notes which step a call runs, for the time of the call."""
        around, self._step = self._step, step
        try:
            yield
        finally:
            self._step = around

    @contextlib.contextmanager
    def _executing(
        self, model: StatefulModel, step: str, call: MethodCall
    ) -> Iterator[dict[str, object]]:
        """Sets the steps of an execution during a call; yields the call's arguments."""
        self._check_not_in_callback(model)
        compiled_steps = model.steps_per_execution
        schedule = call.infeed.schedule if call.infeed is not None else SINGLE_STEP
        with contextlib.ExitStack() as stack:
            arguments = call.arguments
            if call.infeed is not None:
                callbacks = method_callbacks(
                    model, step, arguments, call.infeed, self.functions.results
                )
                arguments = arguments | {"callbacks": stack.enter_context(callbacks)}
            model.steps_per_execution = schedule.steps_per_execution
            try:
                yield arguments
            finally:
                model.steps_per_execution = compiled_steps

    def _check_not_in_callback(self, model: StatefulModel) -> None:
        """Checks that no callback of the model's steps runs the model while it runs.

        Raises:
            RuntimeError: A callback does.
        """
        if self.functions.results.is_read_here():
            raise RuntimeError(
                f"Model '{model.name}' is busy: a callback that is called once a step runs beside "
                "the device, and cannot run the model, too. Run it at the end of an epoch, or call "
                "`set_asynchronous_callbacks(False)`."
            )


def _check_not_in_function(model: StatefulModel, method: str) -> None:
    """Checks that no graph is traced around a method of the loop.

    Raises:
        RuntimeError: A `tf.function` calls the method.
    """
    if not tf.executing_eagerly():
        raise RuntimeError(
            f"Detected a call to `{method}` of model '{model.name}' inside a `tf.function`: it is "
            "a loop of the host, which cannot become a part of a graph. Call the model itself, or "
            "the method outside of the function."
        )


def _arguments(
    model: StatefulModel, method: str, args: tuple[object, ...], kwargs: Mapping[str, object]
) -> dict[str, object]:
    """Returns the arguments of Keras' method by name, with defaults; `shuffle` without."""
    signature = adapter_of(model).loop.signature(method)
    bound = signature.bind(model, *args, **kwargs)
    if "shuffle" in signature.parameters:
        bound.arguments.setdefault("shuffle", None)
    bound.apply_defaults()
    arguments = {key: value for key, value in bound.arguments.items() if key != "self"}
    return arguments | arguments.pop("kwargs", {})
