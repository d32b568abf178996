"""What Keras 2.6 did otherwise than 2.15, which tf_keras is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import MappingProxyType, ModuleType
from typing import Any

import tensorflow as tf
import tf_keras

from ipu_tf.compat.keras2.spelling import Call, Notify, Spelling
from ipu_tf.internals.patches import Patch, Wrap
from ipu_tf.internals.tf_keras import OPTIMIZER_OF, optimizers_module

_COMPILATION = Patch(tf_keras.Model, "compile", "a tensor is a number of steps")
_LAYER = Patch(tf_keras.layers.Layer, "__init__", "any truth value says whether a layer trains")
_STEPS = "steps_per_execution"
_STEPS_POSITION = 6

_LEGACY = ("Adadelta", "Adagrad", "Adam", "Adamax", "Ftrl", "Nadam", "Optimizer", "RMSprop", "SGD")
"""Optimizers of Keras 2.6 that 2.15 keeps beside its own of these names."""


@contextlib.contextmanager
def legacy_optimizers(tree: ModuleType) -> Iterator[None]:
    """Makes the optimizers of Keras 2.6 those that scripts find by their names.

    Args:
        tree: The package that scripts get for `keras`.
    """
    module = tree.optimizers
    given = {name: getattr(module.legacy, name) for name in _LEGACY}
    given |= {"get": optimizers_module.get}
    stock = {name: getattr(module, name) for name in given}
    vars(module).update(given)
    try:
        yield
    finally:
        vars(module).update(stock)


def _by_name(notify: Notify) -> Wrap:
    """Returns the factory of the function that finds the optimizer of a name."""
    del notify  # Scripts cannot tell.

    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def get(identifier: Any, **kwargs: Any) -> Any:
            names = [name.lower() for name in _LEGACY]
            if isinstance(identifier, str) and identifier.lower() in names:
                kwargs = {"use_legacy_optimizer": True, **kwargs}
            return stock(identifier, **kwargs)

        return get

    return wrap


def _steps(call: Call) -> bool:
    """Makes a tensor of steps a number."""
    if len(call.args) > _STEPS_POSITION:
        steps = call.args[_STEPS_POSITION]
    else:
        steps = call.kwargs.get(_STEPS)
    if not tf.is_tensor(steps):
        return False
    with tf.init_scope():
        number = int(steps)
    if len(call.args) > _STEPS_POSITION:
        call.args = (*call.args[:_STEPS_POSITION], number, *call.args[_STEPS_POSITION + 1 :])
    else:
        call.kwargs[_STEPS] = number
    return True


def _trainable(call: Call) -> bool:
    """Makes what says whether a layer trains, such as a name that a script gave first, a bool."""
    given = call.args[0] if call.args else call.kwargs.get("trainable", True)
    if isinstance(given, bool) or tf.is_tensor(given):
        return False
    if call.args:
        call.args = (bool(given), *call.args[1:])
    else:
        call.kwargs["trainable"] = bool(given)
    return True


SPELLINGS = (
    Spelling(
        name='`keras.optimizers.Adam`, `optimizer="adam"`',
        keras_2="The optimizers of Keras 2.6, with `lr`, `decay`, `get_slot` and "
        "`_resource_apply_dense`.",
        here="They are those of `tf_keras.optimizers.legacy`.",
        wraps=MappingProxyType({OPTIMIZER_OF: _by_name}),
    ),
    Spelling(
        name="`compile(steps_per_execution=dataset.cardinality())`, a tensor",
        keras_2="A tensor was a number.",
        here="It is read when the model is compiled.",
        rewrites=MappingProxyType({_COMPILATION: _steps}),
    ),
    Spelling(
        name="`super().__init__(name)`, `super().__init__(self)` of a layer",
        keras_2="The first argument said whether the layer trains: anything true, or None for no.",
        here="It does.",
        rewrites=MappingProxyType({_LAYER: _trainable}),
    ),
)
"""Each habit of Keras 2.6 that 2.15 lost."""
