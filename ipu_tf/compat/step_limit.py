"""The limit of `ipu-tf run --max-steps` for models of Keras that no IPU runs."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import keras

from ipu_tf.base import trial
from ipu_tf.internals.patches import Patch, Wrap, installed
from ipu_tf.ipu_strategy import IPUStrategy
from ipu_tf.keras.keras3.hooks import KerasHooks

_LOG = logging.getLogger(__name__)

_METHODS = tuple(
    Patch(keras.Model, name, "loops of the host are tried out, too")
    for name in ("fit", "evaluate", "predict")
)


@contextlib.contextmanager
def limiting_stock_models(limit: int) -> Iterator[None]:
    """Ends the loops of stock models after a number of steps; models of the IPU have their own.

    Args:
        limit: The most steps of a call of `fit`, `evaluate` or `predict`.
    """
    with installed({patch: partial(_limited, patch.name, limit) for patch in _METHODS}):
        yield


def _limited(method: str, limit: int, stock: Callable[..., Any]) -> Wrap:
    """Returns a method of models that ends after a number of steps."""
    signature = inspect.signature(stock)

    @functools.wraps(stock)
    def call(model: keras.Model, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(model, *args, **kwargs)
        callbacks = bound.arguments.get("callbacks")
        # Validation has the callbacks of `fit`, which ends it.
        if _has_own_limit(model) or isinstance(callbacks, keras.callbacks.CallbackList):
            return stock(*bound.args, **bound.kwargs)
        given = callbacks if isinstance(callbacks, list | tuple) else [callbacks]
        kept = [callback for callback in given if callback is not None]
        bound.arguments["callbacks"] = [*kept, StepLimit(method, limit)]
        at_once = model.steps_per_execution
        model.steps_per_execution = min(at_once, limit)
        try:
            return stock(*bound.args, **bound.kwargs)
        finally:
            model.steps_per_execution = at_once

    return call


def _has_own_limit(model: keras.Model) -> bool:
    return isinstance(model, KerasHooks) and isinstance(model.distribute_strategy, IPUStrategy)


class StepLimit(keras.callbacks.Callback):
    """Ends a loop after a number of steps, and validation within it after as many.

    Args:
        method: The method that runs the loop.
        limit: The number of steps.
    """

    def __init__(self, method: str, limit: int) -> None:
        super().__init__()
        self._method, self._limit = method, limit
        self._steps = self._last = 0

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, object] | None = None) -> None:
        """Begins to count an epoch's steps."""
        self._last = -1

    def on_train_batch_end(self, batch: int, logs: Mapping[str, object] | None = None) -> None:
        """Ends training once all steps together reach the limit."""
        self._steps += batch - self._last
        self._last = batch
        if self._steps >= self._limit:
            self._tell()
            self.model.stop_training = True

    def on_test_batch_end(self, batch: int, logs: Mapping[str, object] | None = None) -> None:
        """Ends evaluation at the limit."""
        if batch + 1 >= self._limit:
            self._tell()
            self.model.stop_evaluating = True

    def on_predict_batch_end(self, batch: int, logs: Mapping[str, object] | None = None) -> None:
        """Ends prediction at the limit."""
        if batch + 1 >= self._limit:
            self._tell()
            self.model.stop_predicting = True

    def _tell(self) -> None:
        name = self.model.name
        cut = f"`{self._method}` of model '{name}' runs at most {self._limit} steps"
        trial.note_cut(_LOG, cut, self._limit)
