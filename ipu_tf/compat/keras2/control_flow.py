"""Control flow of Python over tensors in the layers, losses, metrics and steps of a script.

Keras 2 converted what a script defined by AutoGraph, so that `if tf.reduce_mean(x) > 0` became a
`tf.cond`. Keras 3 calls it as it is, and TensorFlow refuses a tensor as the condition.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

import keras

from ipu_tf.compat.keras2 import patches
from ipu_tf.compat.spellings.spelling import Notify, Spelling
from ipu_tf.internals.autograph import with_autograph
from ipu_tf.internals.keras_training import function_of
from ipu_tf.internals.patches import Patch, Wrap

_METRIC_ARGUMENTS = Patch(keras.Metric, "__init__", "control flow over tensors is converted")
_LAMBDA_CALLS = Patch(keras.layers.Lambda, "call", "control flow over tensors is converted")

_LIBRARIES = ("keras", "tensorflow", "ipu_tf")
_OF_LAYERS = ("call", "compute_loss", "train_step", "test_step", "predict_step")
_OF_LOSSES = ("call",)
_OF_METRICS = ("update_state", "result")


def converting(*names: str) -> Callable[[Notify], Wrap]:
    """Returns the factory of an initializer whose objects have methods of a script converted.

    Args:
        *names: Methods.
    """

    def of_notify(notify: Notify) -> Wrap:
        del notify  # A method without control flow is as it was.

        def wrap(stock: Callable[..., None]) -> Callable[..., None]:
            def init(owner: Any, /, *args: Any, **kwargs: Any) -> None:
                for name in names:
                    # Keras reads the signatures of methods in its initializer.
                    if name not in vars(owner) and is_of_script(type(owner), name):
                        vars(owner)[name] = with_autograph(getattr(owner, name))
                stock(owner, *args, **kwargs)

            return init

        return wrap

    return of_notify


def is_of_script(kind: type, name: str) -> bool:
    """Returns whether a class of a script defines a method."""
    owner = next((base for base in kind.__mro__ if name in vars(base)), None)
    return owner is not None and not is_of_library(owner)


def is_of_library(thing: Any) -> bool:
    """Returns whether Keras, TensorFlow or this package defines a class or a function."""
    return str(getattr(thing, "__module__", "")).partition(".")[0] in _LIBRARIES


def _calling_functions(attribute: str | None) -> Callable[[Notify], Wrap]:
    """Returns the factory of a method that converts the function that its object wraps.

    Args:
        attribute: Where the object has the function; None for a loss or a metric of Keras.
    """

    def of_notify(notify: Notify) -> Wrap:
        del notify

        def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
            def call(owner: Any, *args: Any, **kwargs: Any) -> Any:
                with _converted_function(owner, attribute):
                    return stock(owner, *args, **kwargs)

            return call

        return wrap

    return of_notify


@contextlib.contextmanager
def _converted_function(owner: Any, attribute: str | None) -> Iterator[None]:
    """Converts the function of an object for a while: its configuration has the function itself."""
    function = function_of(owner) if attribute is None else vars(owner).get(attribute)
    places = [name for name, value in vars(owner).items() if value is function]
    if function is None or not places or is_of_library(function):
        yield
        return
    vars(owner)[places[0]] = with_autograph(function)
    try:
        yield
    finally:
        vars(owner)[places[0]] = function


SPELLINGS = (
    Spelling(
        name="`if`, `for` and `while` over tensors in a script's layers, models, losses, metrics "
        "and `Lambda`",
        keras_2="They became operations of TensorFlow, as in a `tf.function`.",
        here="They become operations of TensorFlow; Keras 3 alone refuses them.",
        wraps=MappingProxyType(
            {
                patches.LAYER_ARGUMENTS: converting(*_OF_LAYERS),
                patches.LOSS_ARGUMENTS: converting(*_OF_LOSSES),
                _METRIC_ARGUMENTS: converting(*_OF_METRICS),
                patches.LOSS_CALLS: _calling_functions(None),
                patches.METRIC_CALLS: _calling_functions(None),
                _LAMBDA_CALLS: _calling_functions("function"),
            }
        ),
    ),
)
