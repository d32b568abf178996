"""What a model trains: the weights that were trainable when it was compiled."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

import keras

from ipu_tf.compat.keras2 import patches
from ipu_tf.compat.keras2.training import methods_of_loop
from ipu_tf.compat.spellings.spelling import Notify, Spelling
from ipu_tf.internals.keras_layers import layers_within
from ipu_tf.internals.patches import Wrap

State = list[tuple[keras.Layer, bool]]
"""Layers, outer ones first, and whether they train."""

_compiled: weakref.WeakKeyDictionary[keras.Model, list[tuple[weakref.ref[keras.Layer], bool]]] = (
    weakref.WeakKeyDictionary()
)
"""The layers of models, and whether they trained when the model was compiled."""


def _state_of(model: keras.Model) -> State:
    return [(layer, layer.trainable) for layer in (model, *layers_within(model))]


def _set(state: State) -> None:
    """Sets whether layers train; setting an outer layer sets the inner ones, which come later."""
    for layer, is_trainable in state:
        layer.trainable = is_trainable


def _recording(notify: Notify) -> Wrap:
    """Returns the factory of `compile`, which records which layers train."""
    del notify  # Given where the state differs.

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def compile_model(model: keras.Model, *args: Any, **kwargs: Any) -> None:
            stock(model, *args, **kwargs)
            _compiled[model] = [(weakref.ref(layer), on) for layer, on in _state_of(model)]

        return compile_model

    return wrap


@contextlib.contextmanager
def _as_compiled(model: keras.Model, notify: Notify) -> Iterator[None]:
    """Makes the layers train that trained when a model was compiled, for a while."""
    now = _state_of(model)
    current = dict(now)
    found = [(reference(), on) for reference, on in _compiled.get(model, ())]
    compiled = [(layer, on) for layer, on in found if layer is not None and layer in current]
    if all(current[layer] == on for layer, on in compiled):
        yield
        return
    notify()
    _set(compiled)
    try:
        yield
    finally:
        _set(now)


def _training_as_compiled(notify: Notify) -> Wrap:
    """Returns the factory of a method that trains a model."""

    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(stock)
        def train(model: keras.Model, *args: Any, **kwargs: Any) -> Any:
            with _as_compiled(model, notify):
                return stock(model, *args, **kwargs)

        return train

    return wrap


SPELLINGS = (
    Spelling(
        name="`layer.trainable = False` after `compile`",
        keras_2="A model trained what was trainable when it was compiled, so a discriminator "
        "could be frozen in the model of a GAN alone.",
        here="It trains that until the next `compile`; Keras 3 alone looks at the first step.",
        wraps=MappingProxyType(
            {
                patches.COMPILATION: _recording,
                **dict.fromkeys(methods_of_loop("fit", "train_on_batch"), _training_as_compiled),
            }
        ),
    ),
)
