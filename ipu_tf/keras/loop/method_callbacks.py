"""The callbacks of a call of `fit`, `evaluate` or `predict`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from keras import tree

from ipu_tf.base import spans
from ipu_tf.keras.adapters.loops import in_keras
from ipu_tf.keras.adapters.models import adapter_of
from ipu_tf.keras.data.infeed import Infeed
from ipu_tf.keras.loop import cost_line
from ipu_tf.keras.loop.device_functions import calls_back_for_steps
from ipu_tf.keras.loop.host_marks import marked_callbacks
from ipu_tf.keras.loop.job_callbacks import callbacks_of_instance
from ipu_tf.keras.loop.nan_cause import naming_the_cause
from ipu_tf.keras.loop.step_results import StepResults
from ipu_tf.keras.loop.stepwise_callbacks import StepwiseCallbackList
from ipu_tf.keras.training_state import StatefulModel


@contextlib.contextmanager
def method_callbacks(
    model: StatefulModel,
    step: str,
    arguments: Mapping[str, object],
    infeed: Infeed,
    results: StepResults,
) -> Iterator[object]:
    """Yields the callbacks of a method, as a list of our own if Keras' would not do.

    Args:
        model: The model.
        step: The step that the method runs.
        arguments: The arguments of the method.
        infeed: The data of the method.
        results: Gets the results of steps.
    """
    callbacks: Any = arguments["callbacks"]
    loop = adapter_of(model).loop
    with contextlib.ExitStack() as stack:
        stack.enter_context(naming_the_cause())
        if not isinstance(callbacks, loop.callback_list_class):
            settings = _settings(model, arguments, infeed)
            trains = "epochs" in arguments
            own = tree.flatten(callbacks) if callbacks else []
            callbacks = own = callbacks_of_instance(own, loop, trains=trains)
            if trains and cost_line.is_printed(arguments["verbose"]):
                callbacks = [*own, in_keras(cost_line.CostLine, loop.callback_class)(own)]
            if calls_back_for_steps(model, step):
                callbacks = in_keras(StepwiseCallbackList, loop.stepwise_list_class)(
                    callbacks,
                    results=results,
                    steps_per_execution=lambda: model.steps_per_execution,
                    replicas=infeed.replicas,
                    reduction=model.ipu_training_state.replication.metric_reduction,
                    **settings,
                )
                stack.callback(callbacks.close)
            elif spans.are_recorded():
                callbacks = loop.callback_list_class(callbacks, **settings)
        if spans.are_recorded():
            stack.enter_context(marked_callbacks(callbacks))
        yield callbacks


def _settings(
    model: StatefulModel, arguments: Mapping[str, object], infeed: Infeed
) -> dict[str, object]:
    """Returns the arguments of a Keras' list of callbacks in the method that is called."""
    return {
        "add_history": "epochs" in arguments,
        "add_progbar": arguments["verbose"] != 0,
        "verbose": arguments["verbose"],
        "epochs": arguments.get("epochs", 1),
        "steps": infeed.schedule.steps,
        "model": model,
    }
