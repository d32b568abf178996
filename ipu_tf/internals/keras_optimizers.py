"""What Keras keeps private of optimizers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeAlias

import keras
import tensorflow as tf

Variable: TypeAlias = "keras.Variable | tf.Variable"
"""A variable of Keras, or the one of TensorFlow that it holds."""

LearningRate: TypeAlias = (
    "keras.Variable | keras.optimizers.schedules.LearningRateSchedule | Callable[[], tf.Tensor]"
)
"""A learning rate as an optimizer keeps it: a number, a schedule, or a function."""


def variables_trained_by(optimizer: keras.optimizers.Optimizer) -> list[keras.Variable]:
    """Returns the variables that an optimizer was built with, in their order.

    The public `Optimizer.variables` are those of the optimizer itself. Relies on
    `Optimizer._trainable_variables`.
    """
    variables: list[keras.Variable] = optimizer._trainable_variables
    return variables


def position_in(optimizer: keras.optimizers.Optimizer, variable: Variable) -> int:
    """Returns where a variable is among those that an optimizer was built with.

    A variable of TensorFlow is found as its Keras variable is. Relies on
    `Optimizer._get_variable_index`, as Keras' own optimizers do.
    """
    return int(optimizer._get_variable_index(variable))


def slots_in(optimizer: keras.optimizers.Optimizer, variable: Variable) -> list[keras.Variable]:
    """Returns the variables that an optimizer keeps for one that it was built with, in one order.

    Relies on Keras' own optimizers having such variables in lists as long as
    `Optimizer._trainable_variables`, and no others but those and `Optimizer._variables`.
    """
    own = (optimizer._trainable_variables, optimizer._variables)
    lists = [
        held
        for held in vars(optimizer).values()
        if isinstance(held, list) and len(held) == len(own[0]) and not any(held is o for o in own)
    ]
    position = position_in(optimizer, variable)
    return [held[position] for held in lists if isinstance(held[position], keras.Variable)]


WEIGHT_DECAY = "_apply_weight_decay"
"""The method by which TensorFlow's base class of optimizers lets weights decay."""


def decay(optimizer: keras.optimizers.Optimizer, weight: tf.Variable) -> None:
    """Lets a weight decay as its optimizer says. Relies on `WEIGHT_DECAY`."""
    getattr(type(optimizer), WEIGHT_DECAY)(optimizer, [weight])


def decays(optimizer: keras.optimizers.Optimizer, weight: Variable) -> bool:
    """Returns whether a weight decays. Relies on `Optimizer._use_weight_decay`."""
    return optimizer.weight_decay is not None and bool(optimizer._use_weight_decay(weight))


def key_in(optimizer: keras.optimizers.Optimizer, variable: Variable) -> Hashable:
    """Returns what an optimizer tells a variable by; it is the same for its Keras variable.

    Relies on the `Optimizer._var_key` of TensorFlow's base class of optimizers.
    """
    return optimizer._var_key(variable)


def check_is_built_for(
    optimizer: keras.optimizers.Optimizer, variables: Iterable[Variable]
) -> None:
    """Checks that an optimizer was built with variables.

    Relies on `Optimizer._check_variables_are_known`, whose error says what to do.

    Raises:
        ValueError: It was not built with one of them.
    """
    optimizer._check_variables_are_known(variables)


def set_strategy_of(
    optimizer: keras.optimizers.Optimizer, strategy: tf.distribute.Strategy
) -> None:
    """Makes a strategy the one that an optimizer makes and updates its variables under.

    It is public only as the scope in which the optimizer is made. Relies on the
    `_distribution_strategy` of TensorFlow's base class of optimizers.
    """
    optimizer._distribution_strategy = strategy


def product_of_momenta_in(optimizer: keras.optimizers.Optimizer) -> keras.Variable | None:
    """Returns the variable of a Nadam that no other optimizer has; None in others.

    Relies on `Nadam._u_product`.
    """
    return getattr(optimizer, "_u_product", None)


def learning_rate_in(optimizer: keras.optimizers.Optimizer) -> LearningRate:
    """Returns the learning rate of an optimizer as it was set: a variable, a schedule, a function.

    The public `Optimizer.learning_rate` is the value of this step. Relies on
    `Optimizer._learning_rate`.
    """
    return optimizer._learning_rate


@contextlib.contextmanager
def keeping_scale_of_gradients(
    optimizer: keras.mixed_precision.LossScaleOptimizer,
) -> Iterator[None]:
    """Makes a `LossScaleOptimizer` apply gradients as they are, for a while.

    Relies on its not unscaling gradients that are to replace their variables, of which
    `Optimizer._overwrite_variable_with_gradient` of this optimizer, not of the inner one, tells.
    """
    vars(optimizer)["_overwrite_variable_with_gradient"] = lambda variable: True
    try:
        yield
    finally:
        del vars(optimizer)["_overwrite_variable_with_gradient"]
