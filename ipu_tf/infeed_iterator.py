"""`iter(dataset)` in a strategy's scope: an infeed that only a function can read."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from ipu_tf.internals import patches
from ipu_tf.internals.tensorflow import IteratorSpec, OwnedIterator, elements_of
from ipu_tf.runtime.static_shapes import check_static_shapes

_EAGER_ERROR = (
    "An IPUOwnedIterator can not be accessed in eager mode when inside 'IPUStrategy': it feeds the "
    "device. Read it inside of a tf.function that `strategy.run` runs, or create the strategy with "
    "`enable_dataset_iterators=False`."
)

_thread = threading.local()
_read_by_host: weakref.WeakSet[tf.data.Dataset] = weakref.WeakSet()


class IPUIteratorSpec(IteratorSpec):
    """The type of an infeed iterator as an argument of a function."""

    @property
    def value_type(self) -> type:
        """The class of the values."""
        return IPUOwnedIterator

    def _from_components(self, components: Any) -> IPUOwnedIterator:
        return IPUOwnedIterator(components=components, element_spec=elements_of(self))

    @staticmethod
    def from_value(value: IPUOwnedIterator) -> IPUIteratorSpec:
        """Returns the type of `value`."""
        return IPUIteratorSpec(value.element_spec)


class IPUOwnedIterator(OwnedIterator):
    """An iterator over a dataset of static shapes, which only functions can read.

    Raises:
        ValueError: An element's shape is not static.
    """

    def __init__(
        self,
        dataset: tf.data.Dataset | None = None,
        components: Any = None,
        element_spec: Any = None,
    ) -> None:
        if dataset is not None:
            check_static_shapes(dataset)
        super().__init__(dataset=dataset, components=components, element_spec=element_spec)

    @property
    def _type_spec(self) -> IPUIteratorSpec:
        return IPUIteratorSpec(self.element_spec)

    def __next__(self) -> Any:
        if tf.executing_eagerly():
            raise RuntimeError(_EAGER_ERROR)
        return super().__next__()

    def next(self) -> Any:
        """Returns the next element, inside a function."""
        return self.__next__()

    def get_next(self) -> Any:
        """Returns the next element, inside a function."""
        if tf.executing_eagerly():
            raise RuntimeError(_EAGER_ERROR)
        return super().get_next()

    def get_next_as_optional(self) -> Any:
        """Always raises: an infeed has no optional elements."""
        raise NotImplementedError(
            "`get_next_as_optional` does not work on an IPUOwnedIterator: an infeed always has "
            "its next element. Use `get_next()`."
        )

    def _serialize_to_tensors(self) -> Any:
        raise NotImplementedError(
            "An IPUOwnedIterator can not be saved in a checkpoint. Save the number of elements "
            "that were read, and `skip` them in the dataset."
        )

    def _restore_from_tensors(self, restored_tensors: Any) -> Any:
        raise NotImplementedError(
            "An IPUOwnedIterator can not be restored from a checkpoint. `skip` the elements that "
            "were read before in the dataset."
        )


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
def _infeeds(wanted: bool) -> Iterator[None]:
    previous, _thread.infeeds = getattr(_thread, "infeeds", False), wanted
    try:
        yield
    finally:
        _thread.infeeds = previous


def _iteration(stock: Callable[[tf.data.Dataset], Any]) -> Callable[[tf.data.Dataset], Any]:
    """Makes iterators infeeds on threads that ask for them."""

    def iterate(dataset: tf.data.Dataset) -> Any:
        infeeds = getattr(_thread, "infeeds", False) and tf.executing_eagerly()
        if infeeds and dataset not in _read_by_host:
            return IPUOwnedIterator(dataset)
        return stock(dataset)

    return iterate
