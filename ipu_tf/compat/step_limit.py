"""The limit of `ipu-tf run --max-steps` for models of Keras that no IPU runs."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

import keras

from ipu_tf.base import trial
from ipu_tf.internals.patches import Patch, Wrap, installed
from ipu_tf.ipu_strategy import IPUStrategy
from ipu_tf.keras.adapters.loops import in_keras
from ipu_tf.keras.extensions import IPUExtensions

_LOG = logging.getLogger(__name__)


class LoopingModel(Protocol):
    """A model of a Keras, as its loops know it."""

    name: str
    steps_per_execution: int
    stop_training: bool
    stop_evaluating: bool
    stop_predicting: bool


Within = Callable[[LoopingModel, int], AbstractContextManager[None]]
"""Returns a context in which the loops of a model end after a number of steps."""


def methods_of_loops(models: type) -> tuple[Patch, ...]:
    """Returns the methods of models that run loops."""
    reason = "loops of the host are tried out, too"
    return tuple(Patch(models, name, reason) for name in ("fit", "evaluate", "predict"))


_METHODS = methods_of_loops(keras.Model)


@contextlib.contextmanager
def limiting_stock_models(limit: int) -> Iterator[None]:
    """Ends the loops of models of Keras 3 after a number of steps; those of the IPU have their own.

    Args:
        limit: The most steps of a call of `fit`, `evaluate` or `predict`.
    """
    kinds = keras.callbacks.Callback, keras.callbacks.CallbackList
    with installed(limited_methods(_METHODS, kinds, limit, executions_within)):
        yield


def limited_methods(
    methods: Sequence[Patch], kinds: tuple[type, type], limit: int, within: Within
) -> dict[Patch, Wrap]:
    """Returns the replacements of the methods of models that run loops.

    Args:
        methods: The methods.
        kinds: The classes of callbacks and of lists of them.
        limit: The most steps of a call.
        within: Limits what callbacks cannot.
    """
    return {patch: partial(_with_limit, patch.name, kinds, limit, within) for patch in methods}


def _with_limit(
    method: str,
    kinds: tuple[type, type],
    limit: int,
    within: Within,
    stock: Callable[..., Any],
) -> Callable[..., Any]:
    """Returns a method of models that ends after a number of steps."""
    signature = inspect.signature(stock)
    callback, callback_list = kinds

    @functools.wraps(stock)
    def call(model: Any, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(model, *args, **kwargs)
        callbacks = bound.arguments.get("callbacks")
        # Validation has the callbacks of `fit`, which ends it.
        if _has_own_limit(model) or isinstance(callbacks, callback_list):
            return stock(*bound.args, **bound.kwargs)
        items = callbacks if isinstance(callbacks, list | tuple) else [callbacks]
        callbacks = [one for one in items if one is not None]
        bound.arguments["callbacks"] = [*callbacks, in_keras(StepLimit, callback)(method, limit)]
        with within(model, limit):
            return stock(*bound.args, **bound.kwargs)

    return call


def _has_own_limit(model: Any) -> bool:
    return isinstance(model, IPUExtensions) and isinstance(model.distribute_strategy, IPUStrategy)


@contextlib.contextmanager
def executions_within(model: LoopingModel, limit: int) -> Iterator[None]:
    """Runs at most so many steps of a model at once."""
    at_once = int(model.steps_per_execution)  # A variable in tf_keras.
    model.steps_per_execution = min(at_once, limit)
    try:
        yield
    finally:
        model.steps_per_execution = at_once


class StepLimit:
    """A callback that ends a loop after a number of steps, and validation within it after as many.

    `in_keras` makes it one of a Keras. Loops of tf_keras let a callback end training alone.

    Args:
        method: The method that runs the loop.
        limit: The number of steps.
    """

    model: LoopingModel

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
        loop = f"`{self._method}` of model '{name}' runs at most {self._limit} steps"
        trial.note_cut(_LOG, loop, self._limit)
