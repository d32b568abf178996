"""The results of steps on their way to the host, while the device goes on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

import keras
import numpy as np
import tensorflow as tf


class Reader:
    """Takes the results of steps on another thread than the device's."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread: int | None = None

    def put(self, results: Any) -> None:
        """Hands over the results of one step of one replica."""
        self._queue.put(results)

    def take(self) -> Any:
        """Returns the next results, once they are there.

        Raises:
            concurrent.futures.CancelledError: There will be none.
        """
        self._thread = threading.get_ident()
        results = self._queue.get()
        if results is _END:
            raise CancelledError
        return results

    def is_read_here(self) -> bool:
        """Returns whether it is this thread that takes results."""
        return self._thread == threading.get_ident()

    def cancel(self) -> None:
        """Tells who waits for results that there will be none."""
        self._queue.put(_END)


_END = object()


class StepResults:
    """Hands the results of steps to the last reader that was opened; without one, drops them.

    They come in order: the steps of an execution one after the other, of each the replicas.
    """

    def __init__(self) -> None:
        self._readers: list[Reader] = []

    def open(self) -> Reader:
        """Returns a new reader, which gets all results until it is closed."""
        reader = Reader()
        self._readers.append(reader)
        return reader

    def close(self, reader: Reader) -> None:
        """Ends a reader; the one that was opened before gets the results again."""
        self._readers.remove(reader)
        reader.cancel()

    def is_read_here(self) -> bool:
        """Returns whether it is this thread that takes results."""
        return any(reader.is_read_here() for reader in self._readers)

    def put(self, results: Any) -> None:
        """Hands over the results of one step of one replica, NumPy arrays."""
        if self._readers:
            self._readers[-1].put(results)

    def put_execution(self, results: Any) -> None:
        """Hands over the results of an execution that has ended.

        Args:
            results: Tensors of shape `[steps, replicas, ...]`.
        """
        if not self._readers:
            return
        values = keras.tree.map_structure(np.asarray, results)
        for index in np.ndindex(keras.tree.flatten(values)[0].shape[:2]):
            self.put(keras.tree.map_structure(lambda leaf, index=index: leaf[index], values))

    def publish(self, results: Any) -> None:
        """Adds to the program of the host that it hands these results over when they are there.

        Args:
            results: Those of one step of one replica.
        """
        tf.numpy_function(self._taker(results), keras.tree.flatten(results), [])

    def _taker(self, structure: Any) -> Callable[..., None]:
        def take(*leaves: Any) -> None:
            self.put(keras.tree.pack_sequence_as(structure, leaves))

        return take
