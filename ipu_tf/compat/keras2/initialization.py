"""Initializers of layers and optimizers as Keras 2 let scripts write them."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.compat.keras2 import patches
from ipu_tf.compat.spellings.spelling import Call, Notify, Spelling, called_by_library
from ipu_tf.internals.keras_layers import adopt_variable, is_initialized
from ipu_tf.internals.patches import Patch, Wrap

_LAYER_COMPUTATION = Patch(keras.Layer, "call", "a layer may return its inputs")
_OPTIMIZER_ATTRIBUTES = Patch(
    keras.optimizers.Optimizer, "__setattr__", "they may be set before the optimizer's own"
)

_EARLY = "keras_2_early_variables"


def _private_names(notify: Notify) -> Wrap:
    """Returns the factory of the initializer that names layers after their classes."""

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def init(operation: keras.Operation, name: Any = None) -> None:
            stock(operation, name)
            if name is None and operation.name.startswith("_"):
                notify()
                operation.name = f"private{operation.name}"

        return init

    return wrap


def _trainable_by_default(call: Call) -> bool:
    """Leaves out a `trainable` that is no truth value: None, or a name that a script gave first."""
    trainable = call.kwargs.get("trainable", True)
    is_meant = isinstance(trainable, bool | int) or tf.is_tensor(trainable)
    if not is_meant:
        del call.kwargs["trainable"]
    return not is_meant


def _with_early_variables(notify: Notify) -> Wrap:
    """Returns the factory of an initializer of layers that may have variables before."""
    del notify  # Given where the variables are set.

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def init(layer: keras.Layer, /, *args: Any, **kwargs: Any) -> None:
            stock(layer, *args, **kwargs)
            for variable in vars(layer).pop(_EARLY, ()):
                adopt_variable(layer, variable)

        return init

    return wrap


def adopt_or_keep(layer: keras.Layer, variable: tf.Variable) -> None:
    """Makes a variable of TensorFlow a weight of a layer, once the layer is initialized."""
    if is_initialized(layer):
        adopt_variable(layer, variable)
    else:
        vars(layer).setdefault(_EARLY, []).append(variable)


def _setting_early(notify: Notify) -> Wrap:
    """Returns the factory of the method that sets attributes of optimizers, initialized or not."""

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def set_attribute(optimizer: keras.optimizers.Optimizer, name: str, value: Any) -> None:
            if is_initialized(optimizer) or called_by_library():
                stock(optimizer, name, value)
                return
            notify()
            object.__setattr__(optimizer, name, value)

        return set_attribute

    return wrap


def _identity(notify: Notify) -> Wrap:
    """Returns the factory of the `call` that layers inherit, which returns its inputs."""

    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def call(layer: keras.Layer, *args: Any, **kwargs: Any) -> Any:
            if type(layer).__module__.startswith(("keras.", "ipu_tf.")):
                return stock(layer, *args, **kwargs)
            notify()
            return args[0]

        return call

    return wrap


SPELLINGS = (
    Spelling(
        name="a class of layers named `_Block`",
        keras_2="The layers were named `private__block`.",
        here="They are; Keras 3 alone cannot run a model with the name `__block` in a function.",
        wraps=MappingProxyType({patches.LAYER_NAMES[0]: _private_names}),
    ),
    Spelling(
        name="`super().__init__(None)`, `super().__init__(name)` of a layer or a model",
        keras_2="Models ignored the positional argument, layers took it for `trainable`.",
        here="It is left out: the layer trains, and has the name of its class.",
        rewrites=MappingProxyType({patches.LAYER_ARGUMENTS: _trainable_by_default}),
    ),
    Spelling(
        name="`self.rate = 0.1` before `super().__init__()` of an optimizer or a layer",
        keras_2="Attributes could be set at any time.",
        here="They can, and variables of layers are weights; Keras 3 alone refuses them.",
        wraps=MappingProxyType(
            {
                patches.LAYER_ARGUMENTS: _with_early_variables,
                _OPTIMIZER_ATTRIBUTES: _setting_early,
            }
        ),
    ),
    Spelling(
        name="a class of layers without a `call`",
        keras_2="It returned its inputs.",
        here="It returns its inputs.",
        wraps=MappingProxyType({_LAYER_COMPUTATION: _identity}),
    ),
)
