"""The model that a word of the command line names."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ipu_tf.base.model_names import ZOO, is_of_zoo
from ipu_tf.base.user_objects import UsageError, named
from ipu_tf.cli.failures import FailedFunction

if TYPE_CHECKING:
    import keras


def is_packed(path: str) -> bool:
    """Returns whether a path names a network of the zoo whose inputs have no batch axis."""
    if not is_of_zoo(path):
        return False
    from ipu_tf import zoo

    return bool(zoo.network(path.removeprefix(f"{ZOO}:")).items)


def model_named(path: str, batch_size: int = 1) -> keras.Model | Callable[[], keras.Model]:
    """Returns the function, class or model named "module:function", or "zoo:network".

    Args:
        path: The name, which `check_name` takes.
        batch_size: Items of a batch of networks that are made for their number.

    Raises:
        UsageError: There is no such module or function, or it needs arguments.
    """
    if is_of_zoo(path):
        return _network(path.removeprefix(f"{ZOO}:"), batch_size)
    maker, (source, _, attribute) = named(path, "function"), path.rpartition(":")
    if _is_model(maker):
        return maker
    if not callable(maker) or _is_layer(maker):
        raise UsageError(
            f"'{source}' has no function '{attribute}'. Name a function that makes a model, or a "
            f"model. Received: {type(maker).__name__}."
        )
    required = _needed_arguments(maker)
    if required:
        kind = "class" if inspect.isclass(maker) else "function"
        raise UsageError(
            f"{kind} '{attribute}' of '{source}' needs arguments, and none are passed. Name "
            f"a function that calls it with them. Received: a {kind} of {', '.join(required)}."
        )
    return _marking_errors(maker)


def _network(name: str, batch_size: int) -> Callable[[], Any]:
    """Returns the function that makes a network of the zoo, compiled."""
    from ipu_tf import zoo  # Keras takes seconds to load.

    items = zoo.network(name).items
    sizes: dict[str, Any] = {items: batch_size} if items else {}
    return _marking_errors(functools.partial(zoo.compiled, name, **sizes))


def _is_model(candidate: Any) -> bool:
    import keras  # Takes seconds to load; a module that makes models has already loaded it.

    return isinstance(candidate, keras.Model)


def _is_layer(candidate: Any) -> bool:
    import keras

    return isinstance(candidate, keras.Layer)


def _needed_arguments(function: Callable[..., Any]) -> list[str]:
    """Returns the names of the required arguments of a function."""
    made_by = function.__init__ if inspect.isclass(function) else function
    try:
        parameters = [*inspect.signature(made_by).parameters.values()]
    except ValueError:  # Some functions that are not written in Python have none.
        return []
    if inspect.isclass(function):
        del parameters[0]  # The object itself.
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in optional]


def _marking_errors(function: Callable[[], Any]) -> Callable[[], Any]:
    """Returns the function with its errors marked, to tell them from errors of the estimate."""

    @functools.wraps(function)
    def make() -> Any:
        try:
            return function()
        except Exception as error:
            raise FailedFunction from error

    return make
