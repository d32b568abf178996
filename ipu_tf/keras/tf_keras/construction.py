"""Turns models of tf_keras made inside an IPU strategy's scope into IPU models."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import tensorflow as tf
import tf_keras

from ipu_tf.internals import patches
from ipu_tf.internals.tf_keras import (
    ADAPTATION,
    LOSS_REDUCTION,
    LOSS_SCALING,
    MODEL_CREATION,
    TfKerasFunctional,
    is_functional_call,
)
from ipu_tf.keras.deployment.model_pipeline import check_recorded_stages, remove_assigned_stages
from ipu_tf.keras.identity import KerasIdentity, ipu_class
from ipu_tf.keras.tf_keras import estimate_adapter, graph_adapter, layer_stages, model_adapter
from ipu_tf.keras.tf_keras.hooks import TfKerasHooks
from ipu_tf.keras.tf_keras.layer_calls import REPLACEMENTS
from ipu_tf.keras.tf_keras.loss_reduction import mean_of_one_replica
from ipu_tf.keras.tf_keras.loss_scaling import supporting_strategies
from ipu_tf.keras.tf_keras.options_in_files import READING, WRITING
from ipu_tf.keras.training_hooks import mark_as_made_in_scope
from ipu_tf.strategy.infeed_iterator import stock_dataset_iterators

__all__ = [
    "Functional",
    "Sequential",
    "converting",
    "estimate_adapter",
    "graph_adapter",
    "layer_stages",
    "model_adapter",
]

_thread = threading.local()


class Functional(KerasIdentity, TfKerasHooks, TfKerasFunctional):
    """A functional model of tf_keras that trains on the IPU."""

    _stands_for = TfKerasFunctional
    __reduce__ = tf_keras.Model.__reduce__  # It names no class that pickle would not find.

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        # Stages need a strategy in force: inside of a `tf.Graph` there is none, and no model runs.
        if tf.compat.v1.executing_eagerly_outside_functions():
            check_recorded_stages(self)


class Sequential(KerasIdentity, TfKerasHooks, tf_keras.Sequential):
    """A `tf_keras.Sequential` that trains on the IPU."""

    _stands_for = tf_keras.Sequential
    __reduce__ = tf_keras.Model.__reduce__

    def add(self, layer: tf_keras.layers.Layer) -> None:
        """See `tf_keras.Sequential.add`; drops assigned stages."""
        remove_assigned_stages(self)
        super().add(layer)

    def pop(self) -> None:
        """See `tf_keras.Sequential.pop`; drops assigned stages."""
        remove_assigned_stages(self)
        super().pop()


class TfKerasSubclass(KerasIdentity, TfKerasHooks):
    """The base of IPU models whose class is a script's own subclass of `tf_keras.Model`."""

    _stands_for = tf_keras.Model
    __reduce__ = tf_keras.Model.__reduce__


_CLASSES = (Sequential, Functional, TfKerasSubclass)


@contextlib.contextmanager
def converting() -> Iterator[None]:
    """Turns models made inside, on this thread, into IPU models."""
    with patches.installed(_REPLACEMENTS):
        _thread.depth = getattr(_thread, "depth", 0) + 1
        try:
            yield
        finally:
            _thread.depth -= 1


def _model_creation(stock: Callable[..., tf_keras.Model]) -> Callable[..., tf_keras.Model]:
    """Returns a `__new__` that makes IPU models on threads inside a scope."""

    def new(cls: type, *args: object, **kwargs: object) -> tf_keras.Model:
        if not getattr(_thread, "depth", 0):
            return stock(cls, *args, **kwargs)
        if cls is tf_keras.Model and is_functional_call(args, kwargs):
            model = stock(Functional)
        else:
            ours = cls if issubclass(cls, TfKerasHooks) else ipu_class(cls, _CLASSES)
            model = stock(ours, *args, **kwargs)
        mark_as_made_in_scope(model)
        return model

    return new


def _adaptation(stock: Callable[..., None]) -> Callable[..., None]:
    """Returns an `adapt` that reads datasets by TensorFlow's own iterators."""

    @functools.wraps(stock)
    def adapt(*args: object, **kwargs: object) -> None:
        with stock_dataset_iterators():
            stock(*args, **kwargs)

    return adapt


_REPLACEMENTS: Mapping[patches.Patch, patches.Wrap] = MappingProxyType(
    {
        MODEL_CREATION: _model_creation,
        LOSS_REDUCTION: mean_of_one_replica,
        LOSS_SCALING: supporting_strategies,
        ADAPTATION: _adaptation,
        **REPLACEMENTS,
        **READING,
        **WRITING,
    }
)
"""What the scope of a strategy replaces."""
