"""What Keras keeps private of optimizers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeAlias

import keras
import tensorflow as tf

Variable: TypeAlias = "keras.Variable | tf.Variable"
"""A variable of Keras, or the one of TensorFlow that it holds."""


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
    own_variables = (optimizer._trainable_variables, optimizer._variables)
    lists = [
        weights
        for weights in vars(optimizer).values()
        if isinstance(weights, list)
        and len(weights) == len(own_variables[0])
        and not any(weights is o for o in own_variables)
    ]
    position = position_in(optimizer, variable)
    return [weights[position] for weights in lists if isinstance(weights[position], keras.Variable)]


WEIGHT_DECAY = "_apply_weight_decay"
"""The method by which TensorFlow's base class of optimizers lets weights decay."""


def decay(optimizer: keras.optimizers.Optimizer, weight: tf.Variable) -> None:
    """Lets a weight decay as its optimizer says. Relies on `WEIGHT_DECAY`."""
    getattr(type(optimizer), WEIGHT_DECAY)(optimizer, [weight])


def decays(optimizer: keras.optimizers.Optimizer, weight: Variable) -> bool:
    """Returns whether a weight decays. Relies on `Optimizer._use_weight_decay`."""
    return optimizer.weight_decay is not None and bool(optimizer._use_weight_decay(weight))


def exempts_weights(optimizer: keras.optimizers.Optimizer) -> bool:
    """Returns whether single weights were exempted from decay.

    Publicly a weight can be exempted, and nothing says which were. Relies on the
    `_exclude_from_weight_decay` that `exclude_from_weight_decay` sets, and on its pattern.
    """
    names = ("_exclude_from_weight_decay", "_exclude_from_weight_decay_pattern")
    return any(getattr(optimizer, name, None) for name in names)


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
