"""Arguments of callbacks as Keras 2 took them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.compat.keras2 import patches
from ipu_tf.compat.spellings.spelling import Call, Notify, Spelling
from ipu_tf.internals.keras import MonitorCallback
from ipu_tf.internals.patches import Patch, Wrap

_CHECKPOINTED_EPOCHS = Patch(
    keras.callbacks.ModelCheckpoint, "on_epoch_end", "a period may pass between two files"
)
_SCHEDULERS = Patch(
    keras.callbacks.LearningRateScheduler, "__init__", "its function may return a tensor"
)
_LOGGED_RATES = tuple(
    Patch(owner, "on_epoch_end", "logs have the learning rate under the name `lr`")
    for owner in (keras.callbacks.LearningRateScheduler, keras.callbacks.ReduceLROnPlateau)
)
_BOARDS = Patch(keras.callbacks.TensorBoard, "__init__", "it takes the arguments of Keras 2")
_BARS = Patch(keras.callbacks.ProgbarLogger, "__init__", "it takes the arguments of Keras 2")
_PLATEAUS = Patch(keras.callbacks.ReduceLROnPlateau, "__init__", "`epsilon` is the smallest change")
_MONITOR_DIRECTIONS = Patch(
    MonitorCallback, "_set_monitor_op", "names tell whether more of a value is better"
)
_CALLBACK_LISTS = Patch(
    keras.callbacks.CallbackList, "__init__", "callbacks name their arguments as they like"
)
_CALLBACK_MODELS = Patch(keras.callbacks.Callback, "model", "scripts set the model of a callback")

_OF_TENSORFLOW_1: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "TensorBoard": ("write_grads", "batch_size", "embeddings_layer_names", "embeddings_data"),
        "ProgbarLogger": ("count_mode", "stateful_metrics"),
    }
)
"""Arguments of TensorFlow 1 that Keras 2 took and left unused, by class."""


def _without_unused(call: Call) -> bool:
    """Removes arguments that Keras 2 did not use either."""
    classes = (base.__name__ for base in type(call.owner).__mro__)
    names = [name for base in classes for name in _OF_TENSORFLOW_1.get(base, ())]
    found = [name for name in names if name in call.kwargs]
    for name in found:
        del call.kwargs[name]
    return bool(found)


def _smallest_change(call: Call) -> bool:
    """Reads `epsilon` as `min_delta`."""
    if "epsilon" not in call.kwargs:
        return False
    call.kwargs["min_delta"] = call.kwargs.pop("epsilon")
    return True


def _saving_each_period(notify: Notify) -> Wrap:
    """Returns the factory of an initializer that takes the epochs between two files."""

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def init(callback: Any, *args: Any, **kwargs: Any) -> None:
            period = kwargs.pop("period", None)
            stock(callback, *args, **kwargs)
            if period is not None:
                notify()
                callback.period = int(period)

        return init

    return wrap


def _at_ends_of_periods(notify: Notify) -> Wrap:
    """Returns the factory of `on_epoch_end` of checkpoints with a period."""
    del notify  # Given where the callback is made.

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def on_epoch_end(callback: Any, epoch: int, logs: Any = None) -> None:
            waited = vars(callback).get("epochs_since_last_save", 0) + 1
            is_due = waited >= vars(callback).get("period", 1)
            callback.epochs_since_last_save = 0 if is_due else waited
            if is_due:
                stock(callback, epoch, logs)

        return on_epoch_end

    return wrap


def _scheduling_tensors(notify: Notify) -> Wrap:
    """Returns the factory of the initializer of a scheduler whose function may return tensors."""

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def init(callback: Any, schedule: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
            @functools.wraps(schedule)
            def as_number(*epoch_and_rate: Any) -> Any:
                rate = schedule(*epoch_and_rate)
                if not tf.is_tensor(rate):
                    return rate
                notify()
                return float(rate)

            stock(callback, as_number, *args, **kwargs)

        return init

    return wrap


def _short_name_of_rate(notify: Notify) -> Wrap:
    """Returns the factory of `on_epoch_end` of callbacks that log the learning rate as `lr`."""
    del notify  # Nothing that a script says asks for it.

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def on_epoch_end(callback: Any, epoch: int, logs: Any = None) -> None:
            before = set(logs or ())
            stock(callback, epoch, logs)
            for name in [name for name in logs or () if name not in before]:
                logs[name.replace("learning_rate", "lr", 1)] = logs.pop(name)

        return on_epoch_end

    return wrap


def _directed_by_name(notify: Notify) -> Wrap:
    """Returns the factory of the choice of a direction, by names where Keras 3 makes none."""

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def choose(callback: Any) -> None:
            try:
                stock(callback)
            except ValueError:
                notify()
                callback.mode = "max" if _grows(callback) else "min"
                stock(callback)

        return choose

    return wrap


def _grows(callback: Any) -> bool:
    """Returns whether more of the value that a callback watches was better in Keras 2."""
    if isinstance(callback, keras.callbacks.EarlyStopping):
        return str(callback.monitor).endswith(("acc", "accuracy", "auc"))
    return "acc" in callback.monitor or callback.monitor.startswith("fmeasure")


def _with_own_names(notify: Notify) -> Wrap:
    """Returns the factory of the initializer of a list of callbacks, for methods without `logs`."""
    names = [
        f"on_{method}batch_{end}"
        for method in ("", "train_", "test_", "predict_")
        for end in ("begin", "end")
    ]

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def init(callbacks: Any, *args: Any, **kwargs: Any) -> None:
            stock(callbacks, *args, **kwargs)
            for callback in callbacks.callbacks:
                for name in names:
                    hook = getattr(callback, name)
                    if not _takes_logs(hook):
                        notify()
                        setattr(callback, name, functools.partial(_by_position, hook))

        return init

    return wrap


def _takes_logs(hook: Callable[..., Any]) -> bool:
    """Returns whether a method of a callback takes the argument `logs` by its name."""
    parameters = inspect.signature(hook).parameters
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    return takes_any or "logs" in parameters


def _by_position(hook: Callable[..., Any], batch: int, logs: Any = None) -> None:
    hook(batch, logs)


def _setting_model(notify: Notify) -> Wrap:
    """Returns the factory of the property `model`, which can be set."""

    def set_model(callback: keras.callbacks.Callback, model: keras.Model) -> None:
        notify()
        # A callback of the user's may override `set_model`.
        keras.callbacks.Callback.set_model(callback, model)

    return lambda stock: property(stock.fget, set_model)


SPELLINGS = (
    Spelling(
        name="`ModelCheckpoint(monitor=)`, `EarlyStopping(monitor=)`, "
        "`ReduceLROnPlateau(monitor=)` of a function, without a `mode`",
        keras_2="Less was better, more where the name told of an accuracy.",
        here="It is so; Keras 3 alone refuses what is no metric of its own.",
        wraps=MappingProxyType({_MONITOR_DIRECTIONS: _directed_by_name}),
    ),
    Spelling(
        name="`def on_train_batch_end(self, batch, _)`, a method of a callback without `logs`",
        keras_2="It got the logs by position.",
        here="It gets the logs by position.",
        wraps=MappingProxyType({_CALLBACK_LISTS: _with_own_names}),
    ),
    Spelling(
        name="`callback.model = model`",
        keras_2="It set the model, as `set_model` did.",
        here="It sets the model.",
        wraps=MappingProxyType({_CALLBACK_MODELS: _setting_model}),
    ),
    Spelling(
        name="`LearningRateScheduler(function)`, whose function returns a tensor",
        keras_2="A tensor was a number.",
        here="The tensor's value is taken.",
        wraps=MappingProxyType({_SCHEDULERS: _scheduling_tensors}),
    ),
    Spelling(
        name="`ModelCheckpoint(period=)`",
        keras_2="A file was written each so many epochs.",
        here="A file is written each so many epochs.",
        wraps=MappingProxyType(
            {
                patches.CHECKPOINTS: _saving_each_period,
                _CHECKPOINTED_EPOCHS: _at_ends_of_periods,
            }
        ),
    ),
    Spelling(
        name="`TensorBoard(write_grads=, batch_size=)`, `ProgbarLogger(count_mode=)`",
        keras_2="Arguments of TensorFlow 1, without effect on results.",
        here="They are left out.",
        rewrites=MappingProxyType(dict.fromkeys((_BOARDS, _BARS), _without_unused)),
    ),
    Spelling(
        name='`history.history["lr"]`, `logs["lr"]` after a `LearningRateScheduler` or a '
        "`ReduceLROnPlateau`",
        keras_2="The logs of an epoch had the learning rate under the name `lr`.",
        here="They do; Keras 3 alone names it `learning_rate`.",
        wraps=MappingProxyType(dict.fromkeys(_LOGGED_RATES, _short_name_of_rate)),
    ),
    Spelling(
        name="`ReduceLROnPlateau(epsilon=)`",
        keras_2="The smallest change that counts.",
        here="It is read as `min_delta=`.",
        rewrites=MappingProxyType({_PLATEAUS: _smallest_change}),
    ),
)
