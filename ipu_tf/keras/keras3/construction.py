"""Turns Keras models made inside an IPU strategy's scope into IPU models."""

from __future__ import annotations

import contextlib
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakValueDictionary

import keras

from ipu_tf.internals import patches
from ipu_tf.internals.keras import KerasFunctional, is_functional_call
from ipu_tf.keras.identity import class_stood_for
from ipu_tf.keras.keras3 import estimate_adapter  # noqa: F401 # It registers itself.
from ipu_tf.keras.keras3.hooks import mark_as_made_in_scope
from ipu_tf.keras.keras3.models import Functional, Model, Sequential
from ipu_tf.strategy import IPUStrategyV1, extend_scopes
from ipu_tf.strategy.default_graph import outlasting_resets

_lock = threading.RLock()
_thread = threading.local()
_twins: WeakValueDictionary[type, type] = WeakValueDictionary()


@extend_scopes
@contextlib.contextmanager
def scope(strategy: IPUStrategyV1) -> Iterator[None]:
    """Turns Keras models constructed inside, on this thread, into IPU models.

    Args:
        strategy: The strategy whose scope is entered.
    """
    del strategy  # Keras finds it through tf.distribute.get_strategy().
    # Keras looks up the models of `.h5` files by name; our classes read the options kept there.
    ours = {class_stood_for(base).__name__: base for base in (Functional, Sequential)}
    with patches.installed({patches.MODEL_CREATION: _model_creation}):
        _thread.depth = getattr(_thread, "depth", 0) + 1
        try:
            with outlasting_resets(lambda: keras.saving.custom_object_scope(ours)):
                yield
        finally:
            _thread.depth -= 1


def _model_creation(stock: Callable[..., keras.Model]) -> Callable[..., keras.Model]:
    """Returns a `__new__` that makes IPU models on threads inside a scope."""

    def new(cls: type[keras.Model], *args: Any, **kwargs: Any) -> keras.Model:
        if not getattr(_thread, "depth", 0):
            return stock(cls, *args, **kwargs)
        if cls is keras.Model:
            model = stock(Functional if is_functional_call(args, kwargs) else Model)
        else:
            model = stock(cls if issubclass(cls, Model) else ipu_class(cls), *args, **kwargs)
        mark_as_made_in_scope(model)
        return model

    return new


def ipu_class(cls: type[keras.Model]) -> type[Model]:
    """Returns the IPU model class that stands for a class of Keras models.

    Args:
        cls: `keras.Model`, `keras.Sequential`, the class of functional models, or a subclass.

    Returns:
        One of the classes of `ipu_tf.keras`, or for a user's class a subclass of both under the
            user's name, in which the user's methods come before ours.
    """
    for base in (Functional, Sequential, Model):
        if cls is class_stood_for(base):
            return base
    with _lock:
        twin = _twins.get(cls)
        if twin is None:
            twin = _twins[cls] = _subclass(cls)
        return twin


def _subclass(cls: type[keras.Model]) -> type[Model]:
    base: type[Model]
    if issubclass(cls, KerasFunctional):
        base = Functional
    elif issubclass(cls, keras.Sequential):
        base = Sequential
    else:
        base = Model
    body = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "_stands_for": cls,
    }
    return types.new_class(
        cls.__name__, (_Unannounced, cls, base), exec_body=lambda namespace: namespace.update(body)
    )


class _Unannounced:
    """Hides a class that the user did not write from the user's `__init_subclass__`."""

    def __init_subclass__(cls) -> None:
        pass
