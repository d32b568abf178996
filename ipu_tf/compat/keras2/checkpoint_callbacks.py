"""`ModelCheckpoint` as Keras 2 had it: training that continues from its files, and best files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import keras

from ipu_tf.compat.keras2 import patches
from ipu_tf.compat.spellings.spelling import Notify, Spelling
from ipu_tf.internals.keras_saving import newest_checkpoint
from ipu_tf.internals.patches import Patch, Wrap

_CHECKPOINT_STARTS = Patch(
    keras.callbacks.ModelCheckpoint, "on_train_begin", "training may begin with the newest file"
)
_CHECKPOINT_CHOICES = Patch(
    keras.callbacks.ModelCheckpoint, "_should_save_model", "without its metric no file is the best"
)

_RESTART = "load_weights_on_restart"


def _restartable(notify: Notify) -> Wrap:
    """Returns the factory of an initializer that takes whether training continues from a file."""

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def init(callback: Any, *args: Any, **kwargs: Any) -> None:
            restarts = kwargs.pop(_RESTART, None)
            stock(callback, *args, **kwargs)
            if restarts is not None:
                notify()
                callback.load_weights_on_restart = bool(restarts)

        return init

    return wrap


def _loading_newest(notify: Notify) -> Wrap:
    """Returns the factory of `on_train_begin`, which loads the newest file where it is asked to."""
    del notify  # Given where the callback is made.

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def on_train_begin(callback: Any, logs: Any = None) -> None:
            stock(callback, logs)
            if not vars(callback).get(_RESTART):
                return
            path = newest_checkpoint(callback)
            if path is not None and Path(path).exists():
                callback.model.load_weights(path)

        return on_train_begin

    return wrap


def _skipping_unknown(notify: Notify) -> Wrap:
    """Returns the factory of the method that decides whether a file is written."""

    def wrap(stock: Callable[..., bool]) -> Callable[..., bool]:
        def should_save(callback: Any, epoch: Any, batch: Any, logs: Any, filepath: Any) -> bool:
            if callback.save_best_only and callback.monitor not in (logs or {}):
                notify()
                return False
            return stock(callback, epoch, batch, logs, filepath)

        return should_save

    return wrap


SPELLINGS = (
    Spelling(
        name="`ModelCheckpoint(load_weights_on_restart=True)`",
        keras_2="`fit` began with the weights of the newest file, if there was one.",
        here="It begins with them.",
        wraps=MappingProxyType(
            {patches.CHECKPOINTS: _restartable, _CHECKPOINT_STARTS: _loading_newest}
        ),
    ),
    Spelling(
        name="`ModelCheckpoint(monitor=, save_best_only=True)` whose `monitor` is not in the logs",
        keras_2="No file was written.",
        here="No file is written; Keras 3 alone writes each epoch.",
        wraps=MappingProxyType({_CHECKPOINT_CHOICES: _skipping_unknown}),
    ),
)
