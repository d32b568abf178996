"""Checks the functions that a user's model and optimizer define against the needs of the loop."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar

from ipu_tf.keras.adapters.models import OptimizerAdapter, adapter_of
from ipu_tf.keras.training_state import StatefulModel

_GIVEN_BY_KERAS = ("training", "mask")
"""Arguments of `call` that Keras gives where a model takes them."""

Function = TypeVar("Function", bound=Callable[..., object])

SWITCH_OFF = (
    "To use the function of the model, set `enable_keras_extensions=False` when the strategy is "
    "made: IPUStrategy(enable_keras_extensions=False)."
)


_OF_LOOP: set[object] = set()
"""What the IPU's loop runs unless a model overrides it."""


def of_loop(function: Function) -> Function:
    """Marks a function as the IPU loop's own: a model with another one overrides it."""
    _OF_LOOP.add(function)
    return function


def is_overridden(model: StatefulModel, name: str) -> bool:
    """Returns whether a model, its class or a user's base class defines its own function.

    Args:
        model: The model.
        name: Name of a method of Keras' training loop.
    """
    if name in vars(model):
        return True
    return inspect.getattr_static(type(model), name) not in _OF_LOOP


def check_not_overridden(model: StatefulModel, name: str, *, why: str) -> None:
    """Checks that Keras or the IPU defines a function of the training loop.

    Args:
        model: The model.
        name: The function that is about to run.
        why: Sentence with the reason.

    Raises:
        RuntimeError: The model defines its own function.
    """
    if is_overridden(model, name):
        raise RuntimeError(
            f"The function `{name}` for the model {model.name} has been overridden. {why} "
            f"{SWITCH_OFF}"
        )


def check_call(model: StatefulModel) -> None:
    """Checks that a model defines its computation.

    Raises:
        NotImplementedError: It is a subclass without a `call`.
    """
    if not adapter_of(model).has_call:
        raise NotImplementedError(
            f"Model '{model.name}' does not implement `call`. Define `call(self, inputs)`, or make "
            f"it of layers: keras.Model(inputs, outputs). Received: a {type(model).__name__}."
        )


def needed_arguments(model: StatefulModel) -> list[str]:
    """Returns the arguments that the `call` of a model needs beside its inputs and `training`."""
    own = list(inspect.signature(model.call).parameters.values())[1:]
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [p for p in own if p.kind in positional and p.default is inspect.Parameter.empty]
    return [parameter.name for parameter in parameters if parameter.name not in _GIVEN_BY_KERAS]


def check_call_arguments(model: StatefulModel, method: str) -> None:
    """Checks that a model can be called with a batch of inputs alone.

    Raises:
        ValueError: Its `call` needs further arguments.
    """
    further = needed_arguments(model)
    if further:
        raise ValueError(
            f"Models passed to `{method}` can only have `training` and the first argument in "
            f"`call` as positional arguments. Received: model '{model.name}', whose `call` needs "
            f"{', '.join(further)}. Give the inputs as one tuple or dictionary, or the arguments "
            "defaults."
        )


class NotCompiledError(RuntimeError, ValueError):
    """A model is used before `compile`: Keras 2 raises a RuntimeError, Keras 3 a ValueError."""


def check_compiled(model: StatefulModel, method: str) -> None:
    """Checks that a model has a loss and an optimizer.

    Args:
        model: The model.
        method: The method that is about to use them.

    Raises:
        NotCompiledError: The model has not been compiled.
    """
    if not model.compiled:
        raise NotCompiledError(
            f"`{method}` of model '{model.name}': You must compile your model before "
            "training/testing: call `compile()`, for example "
            'model.compile(optimizer="adam", loss="mse").'
        )


def check_optimizer(optimizer: OptimizerAdapter | None, model_name: str) -> None:
    """Checks that an optimizer lets the loop decide when weights are updated.

    Args:
        optimizer: The optimizer, None for none.
        model_name: Name of the model that accumulates gradients.

    Raises:
        ValueError: The optimizer, or one that it wraps, defines its own `minimize` without an
            `apply_gradients` that updates alike.
    """
    owner = None if optimizer is None else optimizer.class_that_updates_in_minimize
    if owner is not None:
        raise ValueError(
            f"The optimizer of model '{model_name}' must not override OptimizerV2.minimize: "
            "with gradient accumulation, replication or pipelining the loop computes the "
            "gradients and calls `apply_gradients`. Override `update_step` instead. "
            f"Received: {owner}."
        )
