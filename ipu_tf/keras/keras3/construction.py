"""Turns Keras models made inside an IPU strategy's scope into IPU models."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import keras

from ipu_tf.internals import patches
from ipu_tf.internals.keras import is_functional_call
from ipu_tf.keras.identity import class_stood_for, ipu_class
from ipu_tf.keras.keras3 import estimate_adapter  # noqa: F401 # It registers itself.
from ipu_tf.keras.keras3.models import Functional, Model, Sequential
from ipu_tf.keras.training_hooks import mark_as_made_in_scope
from ipu_tf.strategy import IPUStrategyV1, extend_scopes
from ipu_tf.strategy.default_graph import outlasting_resets

_thread = threading.local()

_CLASSES = (Functional, Sequential, Model)


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

    def new(cls: type[keras.Model], *args: object, **kwargs: object) -> keras.Model:
        if not getattr(_thread, "depth", 0):
            return stock(cls, *args, **kwargs)
        if cls is keras.Model:
            model = stock(Functional if is_functional_call(args, kwargs) else Model)
        else:
            ours = cls if issubclass(cls, Model) else ipu_class(cls, _CLASSES)
            model = stock(ours, *args, **kwargs)
        mark_as_made_in_scope(model)
        return model

    return new
