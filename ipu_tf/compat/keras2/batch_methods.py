"""`train_on_batch` and `test_on_batch` as Keras 2 had them."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import keras

from ipu_tf.compat.keras2.training import methods_of_loop
from ipu_tf.compat.spellings.spelling import Notify, Spelling
from ipu_tf.internals.patches import Wrap

_RESET = "reset_metrics"


def _accumulating(notify: Notify) -> Wrap:
    """Returns the factory of a method that may keep what metrics have counted before."""

    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def on_batch(
            model: keras.Model, *args: Any, reset_metrics: bool | None = None, **kwargs: Any
        ) -> Any:
            if reset_metrics is None:
                return stock(model, *args, **kwargs)
            notify()
            if reset_metrics or _RESET in vars(model):
                return stock(model, *args, **kwargs)
            vars(model)[_RESET] = lambda: None
            try:
                return stock(model, *args, **kwargs)
            finally:
                del vars(model)[_RESET]

        return on_batch

    return wrap


SPELLINGS = (
    Spelling(
        name="`train_on_batch(x, y, reset_metrics=False)`, also `test_on_batch`",
        keras_2="Metrics, and the loss among them, were those of all batches since the last reset.",
        here="They are; `reset_metrics=True` is what Keras 3 does anyway.",
        wraps=MappingProxyType(
            dict.fromkeys(methods_of_loop("train_on_batch", "test_on_batch"), _accumulating)
        ),
    ),
)
