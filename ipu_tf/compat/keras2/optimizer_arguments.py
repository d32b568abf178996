"""Arguments of optimizers as Keras 2 took them."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ipu_tf.compat.keras2.spelling import Call, Notify, Spelling
from ipu_tf.internals import patches

_RATE = "learning_rate"


@keras.saving.register_keras_serializable("ipu_tf")
class InverseTimeDecayOf(keras.optimizers.schedules.LearningRateSchedule):
    """The `decay=` of a Keras 2 optimizer whose learning rate is a schedule.

    Args:
        schedule: The learning rate without the decay.
        decay: The rate of the decay: step n has `schedule(n) / (1 + decay * n)`.
    """

    def __init__(self, schedule: Any, decay: float) -> None:
        self.schedule = schedule
        self.decay = decay

    def __call__(self, step: Any) -> Any:
        """Returns the learning rate of a step."""
        rate = keras.ops.convert_to_tensor(self.schedule(step))
        return rate / (1.0 + self.decay * keras.ops.cast(step, rate.dtype))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make this schedule."""
        schedule = keras.saving.serialize_keras_object(self.schedule)
        return {"schedule": schedule, "decay": self.decay}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> InverseTimeDecayOf:
        """Returns the schedule that `get_config` describes."""
        return cls(keras.saving.deserialize_keras_object(config["schedule"]), config["decay"])


def _rate_of_lr(call: Call) -> bool:
    """Reads `lr` as `learning_rate`."""
    if "lr" not in call.kwargs:
        return False
    _name_rate(call)
    call.kwargs[_RATE] = call.kwargs.pop("lr")
    return True


def _float_rate(call: Call) -> bool:
    """Makes a learning rate that is a number or a tensor what Keras 3 takes."""
    _name_rate(call)
    rate = call.kwargs.get(_RATE)
    if isinstance(rate, keras.Variable | tf.Variable):
        call.kwargs[_RATE] = lambda: tf.convert_to_tensor(rate)
    elif tf.is_tensor(rate) and not hasattr(rate, "numpy"):
        call.kwargs[_RATE] = lambda: rate
    elif tf.is_tensor(rate) or isinstance(rate, np.generic | np.ndarray):
        call.kwargs[_RATE] = float(np.asarray(rate).item())
    elif isinstance(rate, numbers.Real) and not isinstance(rate, float | bool):
        call.kwargs[_RATE] = float(rate)
    return call.kwargs.get(_RATE) is not rate


def _decaying_rate(call: Call) -> bool:
    """Makes a `decay` an inverse-time schedule; it comes after `_float_rate`."""
    if "decay" not in call.kwargs:
        return False
    decay = call.kwargs.pop("decay")
    if not decay:
        return True
    rate = call.kwargs[_RATE]
    schedules = keras.optimizers.schedules
    if isinstance(rate, schedules.LearningRateSchedule):
        call.kwargs[_RATE] = InverseTimeDecayOf(rate, float(decay))
    elif callable(rate):
        call.kwargs[_RATE] = InverseTimeDecayOf(lambda step: rate(), float(decay))
    else:
        call.kwargs[_RATE] = schedules.InverseTimeDecay(rate, 1, float(decay))
    return True


def _name_rate(call: Call) -> None:
    if call.args:
        call.kwargs[_RATE], *rest = call.args
        call.args = tuple(rest)


def _default_epsilon(notify: Notify) -> Callable[[Any], Callable[..., None]]:
    """Returns the factory of a `build` of optimizers that replaces an epsilon of None."""

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def build(optimizer: keras.optimizers.Optimizer, *args: Any, **kwargs: Any) -> None:
            if getattr(optimizer, "epsilon", 0) is None:
                notify()
                optimizer.epsilon = keras.config.epsilon()
            stock(optimizer, *args, **kwargs)

        return build

    return wrap


def _arguments(rewrite: Callable[[Call], bool]) -> Any:
    return MappingProxyType({patches.OPTIMIZER_ARGUMENTS: rewrite})


SPELLINGS = (
    Spelling(
        name="`lr=` of an optimizer",
        keras_2="The learning rate.",
        here="It is read as `learning_rate=`.",
        rewrites=_arguments(_rate_of_lr),
    ),
    Spelling(
        name="`learning_rate=` a tensor, a variable, a NumPy number or a whole number",
        keras_2="Anything that converts to a number was a learning rate; a variable was read at "
        "each step.",
        here="A variable is read at each step; anything else is converted to a float.",
        rewrites=_arguments(_float_rate),
    ),
    Spelling(
        name="`decay=` of an optimizer",
        keras_2="Step n had the learning rate divided by `1 + decay * n`.",
        here="The learning rate is a schedule with these values; as such it cannot be assigned.",
        rewrites=_arguments(_decaying_rate),
    ),
    Spelling(
        name="`epsilon=None` of an optimizer",
        keras_2="It was `keras.backend.epsilon()`.",
        here="It is `keras.config.epsilon()`.",
        wraps=MappingProxyType({patches.OPTIMIZER_BUILDS: _default_epsilon}),
    ),
)
