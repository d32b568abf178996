"""Marks what the training loop does on the host as spans: waits for data, results, callbacks."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import tensorflow as tf
from keras import tree

from ipu_tf.base import spans
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.keras.adapters.loops import CallbackList

_ResultsT = TypeVar("_ResultsT", bound=TensorStructure)

_TRACK = "infeed"

_CALLED_BY_STOCK = {
    "on_train_batch_begin": "on_batch_begin",
    "on_train_batch_end": "on_batch_end",
}
"""Methods that the stock method of a name calls."""


class WaitsForData:
    """Reads batches in a graph, and marks the time that each read takes."""

    def __init__(self) -> None:
        self._begin_ns = 0

    def read(self, iterator: tf.data.Iterator) -> TensorStructure:
        """Returns the next batch of an iterator, in the graph that is being built."""
        with tf.control_dependencies([tf.numpy_function(self._began, [], [])]):
            batch = iterator.get_next()
        leaves = [leaf for leaf in tree.flatten(batch) if leaf is not None]
        with tf.control_dependencies(leaves):
            end = tf.numpy_function(self._end_wait, [], [])
        with tf.control_dependencies([end]):  # Readers of the batch run after it.
            return tree.map_structure(
                lambda leaf: None if leaf is None else tf.identity(leaf), batch
            )

    def _began(self) -> None:
        self._begin_ns = time.perf_counter_ns()

    def _end_wait(self) -> None:
        spans.record(
            "wait for data",
            "infeed",
            track=_TRACK,
            begin_ns=self._begin_ns,
            end_ns=time.perf_counter_ns(),
        )


def taken_by_host(results: _ResultsT) -> _ResultsT:
    """Returns results, and marks the time until the host has them."""
    if spans.are_recorded():
        with spans.span("take results", "outfeed"):
            tree.map_structure(np.asarray, results)
    return results


@contextlib.contextmanager
def marked_callbacks(callbacks: CallbackList) -> Iterator[None]:
    """Marks the calls of each callback of a list inside, unless the list is marked already."""
    own = callbacks.callbacks
    callbacks.callbacks = [
        callback if isinstance(callback, _MarkedCallback) else _MarkedCallback(callback)
        for callback in own
    ]
    try:
        yield
    finally:
        callbacks.callbacks = own


class _MarkedCallback:
    """Stands for a callback in a list; its calls are spans.

    Args:
        callback: The callback.
    """

    def __init__(self, callback: object) -> None:
        self._callback = callback
        self._stock = _stock_class(type(callback))

    def __getattr__(self, name: str) -> object:
        event = getattr(self._callback, name)
        return self._marked(event, name) if _is_event(self._stock, name) else event

    def _marked(self, method: Callable[..., object], name: str) -> Callable[..., object]:
        if all(self._is_stock(each) for each in (name, _CALLED_BY_STOCK.get(name, name))):
            return method
        mark = f"{type(self._callback).__name__}.{name}"

        def call(*args: object, **kwargs: object) -> object:
            with spans.span(mark, "callback"):
                return method(*args, **kwargs)

        return call

    def _is_stock(self, name: str) -> bool:
        """Returns whether the callback leaves a method to Keras' base class."""
        method = getattr(self._callback, name)
        return getattr(method, "__func__", None) is getattr(self._stock, name)


def _stock_class(kind: type) -> type:
    """Returns the class of callbacks of the Keras that a callback is one of."""
    return next((base for base in kind.__mro__ if base.__name__ == "Callback"), kind)


def _is_event(stock: type, name: str) -> bool:
    """Returns whether a name is that of a method which the loop of a Keras calls."""
    return name.startswith("on_") and hasattr(stock, name)
