"""The limit of `ipu-tf run --max-steps` for models of tf_keras that no IPU runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import tf_keras

from ipu_tf.compat.step_limit import executions_within, limited_methods, methods_of_loops
from ipu_tf.internals.patches import installed
from ipu_tf.internals.tf_keras import STEPS_OF_DATA

_METHODS = methods_of_loops(tf_keras.Model)


class _Thread(threading.local):
    limit: int | None = None


_thread = _Thread()


@contextlib.contextmanager
def limiting_models_of_tf_keras(limit: int) -> Iterator[None]:
    """Ends the loops of stock models after a number of steps; models of the IPU have their own."""
    kinds = tf_keras.callbacks.Callback, tf_keras.callbacks.CallbackList
    methods = limited_methods(_METHODS, kinds, limit, _within)
    with installed({**methods, STEPS_OF_DATA: _steps_to_limit}):
        yield


@contextlib.contextmanager
def _within(model: Any, limit: int) -> Iterator[None]:
    """Ends the loops of this thread after so many steps."""
    is_compiled = model.steps_per_execution is not None
    around, _thread.limit = _thread.limit, limit
    try:
        with executions_within(model, limit) if is_compiled else contextlib.nullcontext():
            yield
    finally:
        _thread.limit = around


def _steps_to_limit(stock: Callable[[Any], Iterator[int]]) -> Callable[[Any], Iterator[int]]:
    """Returns a generator of the steps of an epoch that ends at the limit."""

    def steps(data: Any) -> Iterator[int]:
        limit = _thread.limit
        for step in stock(data):
            yield step
            count = step + data.step_increment + 1
            # The last step of an epoch ends what the stock generator has begun.
            if limit is not None and count >= limit and count != data.inferred_steps:
                return

    return steps
