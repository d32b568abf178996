"""`iter(dataset)` in a strategy's scope: an infeed that only a function can read."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from ipu_tf.feeds.iterator import IPUOwnedIterator
from ipu_tf.internals import patches

_thread = threading.local()
_read_by_host: weakref.WeakSet[tf.data.Dataset] = weakref.WeakSet()


def read_by_host(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns a dataset with the same elements, over which `iter` returns a stock iterator."""
    same = dataset.with_options(tf.data.Options())
    _read_by_host.add(same)
    return same


@contextlib.contextmanager
def dataset_iterators_in_scope() -> Iterator[None]:
    """Makes `iter(dataset)` on this thread return an `IPUOwnedIterator`."""
    with patches.installed({patches.DATASET_ITERATION: _iteration}), _infeeds(True):
        yield


def stock_dataset_iterators() -> contextlib.AbstractContextManager[None]:
    """Makes `iter(dataset)` on this thread return TensorFlow's own iterator again."""
    return _infeeds(False)


@contextlib.contextmanager
def stock_iterators_in_scopes() -> Iterator[None]:
    """Makes `iter(dataset)` on this thread return TensorFlow's own iterator, in scopes, too.

    The methods of tf_keras open the scope of their strategy around the data that they read.
    """
    previous, _thread.is_host = getattr(_thread, "is_host", False), True
    try:
        yield
    finally:
        _thread.is_host = previous


@contextlib.contextmanager
def _infeeds(is_ours: bool) -> Iterator[None]:
    previous, _thread.infeeds = getattr(_thread, "infeeds", False), is_ours
    try:
        yield
    finally:
        _thread.infeeds = previous


def _iteration(stock: Callable[[tf.data.Dataset], Any]) -> Callable[[tf.data.Dataset], Any]:
    """Makes iterators infeeds on threads that ask for them."""

    def iterate(dataset: tf.data.Dataset) -> Any:
        infeeds = getattr(_thread, "infeeds", False) and not getattr(_thread, "is_host", False)
        if infeeds and tf.executing_eagerly() and dataset not in _read_by_host:
            return IPUOwnedIterator(dataset)
        return stock(dataset)

    return iterate
