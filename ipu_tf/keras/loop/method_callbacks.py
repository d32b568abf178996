"""The callbacks of a call of `fit`, `evaluate` or `predict`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import keras

from ipu_tf.base import spans
from ipu_tf.keras.data.infeed import Infeed
from ipu_tf.keras.loop import cost_line
from ipu_tf.keras.loop.device_functions import calls_back_for_steps
from ipu_tf.keras.loop.host_marks import marked_callbacks
from ipu_tf.keras.loop.nan_cause import naming_the_cause
from ipu_tf.keras.loop.step_results import StepResults
from ipu_tf.keras.loop.stepwise_callbacks import StepwiseCallbackList
from ipu_tf.keras.training_state import StatefulModel


@contextlib.contextmanager
def method_callbacks(
    model: StatefulModel,
    step: str,
    arguments: Mapping[str, Any],
    infeed: Infeed,
    results: StepResults,
) -> Iterator[Any]:
    """Yields the callbacks of a method, as a list of our own if Keras' would not do.

    Args:
        model: The model.
        step: The step that the method runs.
        arguments: The arguments of the method.
        infeed: The data of the method.
        results: Gets the results of steps.
    """
    callbacks = arguments["callbacks"]
    with contextlib.ExitStack() as stack:
        stack.enter_context(naming_the_cause())
        if not isinstance(callbacks, keras.callbacks.CallbackList):
            settings = _settings(model, arguments, infeed)
            if "epochs" in arguments and cost_line.is_printed(arguments["verbose"]):
                own = keras.tree.flatten(callbacks) if callbacks else []
                callbacks = [*own, cost_line.CostLine(own)]
            if calls_back_for_steps(model, step):
                callbacks = StepwiseCallbackList(
                    callbacks,
                    results=results,
                    steps_per_execution=lambda: model.steps_per_execution,
                    replicas=infeed.replicas,
                    reduction=model.ipu_training_state.replication.metric_reduction,
                    **settings,
                )
                stack.callback(callbacks.close)
            elif spans.are_recorded():
                callbacks = keras.callbacks.CallbackList(callbacks, **settings)
        if spans.are_recorded():
            stack.enter_context(marked_callbacks(callbacks))
        yield callbacks


def _settings(model: StatefulModel, arguments: Mapping[str, Any], infeed: Infeed) -> dict[str, Any]:
    """Returns the arguments of `keras.callbacks.CallbackList` in the method that is called."""
    return {
        "add_history": "epochs" in arguments,
        "add_progbar": arguments["verbose"] != 0,
        "verbose": arguments["verbose"],
        "epochs": arguments.get("epochs", 1),
        "steps": infeed.schedule.steps,
        "model": model,
    }
