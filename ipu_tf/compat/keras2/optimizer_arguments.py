"""Arguments of optimizers as Keras 2 took them."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ipu_tf.compat.keras2 import patches
from ipu_tf.compat.spellings.spelling import Call, Notify, Spelling
from ipu_tf.internals.autograph import with_autograph
from ipu_tf.internals.keras_optimizers import learning_rate_in
from ipu_tf.internals.patches import Patch

_GRADIENT_CLIPPING = Patch(
    keras.optimizers.Optimizer, "_clip_gradients", "values and norms may both be clipped"
)
_MOMENTUM_ARGUMENTS = Patch(keras.optimizers.SGD, "__init__", "a momentum may be a whole number")
_LEARNING_RATES = Patch(
    keras.optimizers.Optimizer, "learning_rate", "it can be assigned beside a decay"
)
_SCHEDULED_RATES = Patch(
    keras.optimizers.Optimizer,
    "_get_current_learning_rate",
    "schedules get the step as a float",
)

_RATE = "learning_rate"
_CLIPVALUE = "clipvalue"
_NORMS = ("clipnorm", "global_clipnorm")


@keras.saving.register_keras_serializable("ipu_tf")
class DecayedLearningRate(keras.optimizers.schedules.LearningRateSchedule):
    """The `decay=` of a Keras 2 optimizer: step n has `learning_rate / (1 + decay * n)`.

    Args:
        learning_rate: A number, which can be assigned later, a schedule or a function.
        decay: The rate of the decay.
    """

    def __init__(self, learning_rate: Any, decay: float) -> None:
        if not callable(learning_rate):
            # A variable: a program that was traced before sees what is assigned.
            learning_rate = keras.Variable(learning_rate, dtype="float32", trainable=False)
        self.learning_rate = learning_rate
        self.decay = float(decay)

    def __call__(self, step: Any) -> Any:
        """Returns the learning rate of a step."""
        rate = self.learning_rate
        if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
            rate = rate(step)
        elif not isinstance(rate, keras.Variable):
            rate = rate()
        rate = keras.ops.convert_to_tensor(rate)
        return rate / (1.0 + self.decay * keras.ops.cast(step, rate.dtype))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make this schedule."""
        rate = self.learning_rate
        is_variable = isinstance(rate, keras.Variable)
        value = float(rate.numpy()) if is_variable else keras.saving.serialize_keras_object(rate)
        return {"learning_rate": value, "decay": self.decay}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> DecayedLearningRate:
        """Returns the schedule that `get_config` describes."""
        rate = config["learning_rate"]
        if not isinstance(rate, float):
            rate = keras.saving.deserialize_keras_object(rate)
        return cls(rate, config["decay"])


def _name_without_rate(call: Call) -> bool:
    """Gives the base class of a subclass its name, and a learning rate that is set later."""
    if call.args and isinstance(call.args[0], str):
        call.kwargs["name"], *rest = call.args
        call.args = tuple(rest)
    if call.args or {_RATE, "lr"} & call.kwargs.keys():
        return False
    call.kwargs[_RATE] = 0.001
    return True


def _name_by_position(call: Call) -> bool:
    """Reads a name in the position that is the weight decay of Keras 3."""
    is_name = isinstance(call.kwargs.get("weight_decay"), str)
    if is_name:
        call.kwargs["name"] = call.kwargs.pop("weight_decay")
    return is_name


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


def _clipping_both(notify: Notify) -> Callable[[Any], Callable[..., None]]:
    """Returns the factory of an initializer that takes `clipvalue` beside a norm."""

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def init(optimizer: keras.optimizers.Optimizer, /, *args: Any, **kwargs: Any) -> None:
            has_norm = any(kwargs.get(name) is not None for name in _NORMS)
            value = kwargs.pop(_CLIPVALUE, None) if has_norm else None
            stock(optimizer, *args, **kwargs)
            if value is not None:
                notify()
                optimizer.clipvalue = value

        return init

    return wrap


def _value_before_norm(notify: Notify) -> Callable[[Any], Callable[..., Any]]:
    """Returns the factory of the method that clips gradients: their values, then their norms."""
    del notify  # Given where the optimizer is made.

    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def clip(optimizer: keras.optimizers.Optimizer, grads: Any) -> Any:
            value = optimizer.clipvalue
            if value and any(getattr(optimizer, name) for name in _NORMS):
                grads = [g if g is None else keras.ops.clip(g, -value, value) for g in grads]
            return stock(optimizer, grads)

        return clip

    return wrap


def _float_momentum(call: Call) -> bool:
    """Makes a momentum that is a whole number a float."""
    is_second = len(call.args) > 1
    momentum = call.args[1] if is_second else call.kwargs.get("momentum")
    if not isinstance(momentum, numbers.Integral) or isinstance(momentum, bool):
        return False
    if is_second:
        call.args = (call.args[0], float(momentum), *call.args[2:])
    else:
        call.kwargs["momentum"] = float(momentum)
    return True


def _decaying_rate(call: Call) -> bool:
    """Makes a `decay` an inverse-time schedule; it comes after `_float_rate`."""
    if "decay" not in call.kwargs:
        return False
    decay = call.kwargs.pop("decay")
    if not decay:
        return True
    call.kwargs[_RATE] = DecayedLearningRate(call.kwargs[_RATE], decay)
    return True


def _assigning_decayed(notify: Notify) -> Callable[[property], property]:
    """Returns the factory of the property `learning_rate`, which can be assigned beside a decay."""
    del notify  # Given where the optimizer is made.

    def wrap(stock: property) -> property:
        get, set_stock = stock.fget, stock.fset

        def set_rate(optimizer: keras.optimizers.Optimizer, rate: Any) -> None:
            schedule = learning_rate_in(optimizer)
            if not isinstance(schedule, DecayedLearningRate):
                set_stock(optimizer, rate)  # type: ignore[misc]
            elif isinstance(schedule.learning_rate, keras.Variable) and not callable(rate):
                schedule.learning_rate.assign(rate)
            else:
                schedule.learning_rate = DecayedLearningRate(rate, 0.0).learning_rate

        return property(get, set_rate)

    return wrap


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


def _float_step(notify: Notify) -> Callable[[Any], Callable[..., Any]]:
    """Returns the factory of the learning rate of a step, whose schedule gets a float."""

    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def current_rate(optimizer: keras.optimizers.Optimizer) -> Any:
            rate: Any = learning_rate_in(optimizer)
            is_schedule = isinstance(rate, keras.optimizers.schedules.LearningRateSchedule)
            if not is_schedule or type(rate).__module__.startswith(("keras.", "ipu_tf.")):
                return stock(optimizer)
            notify()
            return with_autograph(rate.__call__)(tf.cast(optimizer.iterations, tf.float32))

        return current_rate

    return wrap


def _arguments(rewrite: Callable[[Call], bool]) -> Any:
    return MappingProxyType({patches.OPTIMIZER_ARGUMENTS: rewrite})


SPELLINGS = (
    Spelling(
        name="`super().__init__(name)` of a subclass of `Optimizer`, without a learning rate",
        keras_2="The subclass set its learning rate with `_set_hyper`.",
        here="It does; until then the learning rate is 0.001.",
        rewrites=_arguments(_name_without_rate),
    ),
    Spelling(
        name='`Adam(rate, beta_1, beta_2, epsilon, amsgrad, "name")`, the name of an optimizer by '
        "position",
        keras_2="The last position was the name.",
        here="It is the name; Keras 3 alone has the weight decay there, and takes the string for "
        "one.",
        rewrites=_arguments(_name_by_position),
    ),
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
        name="`clipvalue=` beside `clipnorm=` of an optimizer",
        keras_2="The values of gradients were clipped, then their norms.",
        here="They are clipped in this order; Keras 3 alone takes one of the two.",
        wraps=MappingProxyType(
            {
                patches.OPTIMIZER_ARGUMENTS: _clipping_both,
                _GRADIENT_CLIPPING: _value_before_norm,
            }
        ),
    ),
    Spelling(
        name="`SGD(momentum=0)`",
        keras_2="A momentum was any number from 0 to 1.",
        here="A whole number is converted to a float.",
        rewrites=MappingProxyType({_MOMENTUM_ARGUMENTS: _float_momentum}),
    ),
    Spelling(
        name="`decay=` of an optimizer",
        keras_2="Step n had the learning rate divided by `1 + decay * n`.",
        here="The learning rate is a schedule with these values. What is assigned to it later "
        "decays, too; what is read of it has decayed. A model saved with it loads under "
        "`ipu-tf run`.",
        rewrites=_arguments(_decaying_rate),
        wraps=MappingProxyType({_LEARNING_RATES: _assigning_decayed}),
    ),
    Spelling(
        name="a subclass of `LearningRateSchedule`",
        keras_2="It was called with the step as a float.",
        here="It is called with the step as a float32; Keras 3 alone gives a whole number.",
        wraps=MappingProxyType({_SCHEDULED_RATES: _float_step}),
    ),
    Spelling(
        name="`epsilon=None` of an optimizer",
        keras_2="It was `keras.backend.epsilon()`.",
        here="It is `keras.config.epsilon()`.",
        wraps=MappingProxyType({patches.OPTIMIZER_BUILDS: _default_epsilon}),
    ),
)
