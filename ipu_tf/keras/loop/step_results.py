"""Hands the results of steps to the host while the device runs on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError

import numpy as np
import tensorflow as tf
from keras import tree

from ipu_tf.base import spans
from ipu_tf.internals.structures import TensorStructure


class Reader:
    """Takes the results of steps on a thread other than the device's."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[TensorStructure | object] = queue.SimpleQueue()
        self._thread: int | None = None

    def put(self, results: TensorStructure) -> None:
        """Hands over the results of one step of one replica."""
        self._queue.put(results)

    def take(self) -> TensorStructure:
        """Returns the next results as soon as they are there.

        Raises:
            concurrent.futures.CancelledError: There will be no more results.
        """
        self._thread = threading.get_ident()
        results = self._queue.get()
        if results is _END:
            raise CancelledError
        return results

    def is_read_here(self) -> bool:
        """Returns whether this thread takes the results."""
        return self._thread == threading.get_ident()

    def cancel(self) -> None:
        """Tells threads that wait for results that there will be none."""
        self._queue.put(_END)


_END = object()


class StepResults:
    """Hands the results of steps to the last reader that was opened; drops them without one.

    They come in order: step after step of an execution, and replica after replica of a step.
    """

    def __init__(self) -> None:
        self._readers: list[Reader] = []

    def open(self) -> Reader:
        """Returns a new reader, which gets all results until it is closed."""
        reader = Reader()
        self._readers.append(reader)
        return reader

    def close(self, reader: Reader) -> None:
        """Closes a reader; the one opened before it gets the results again."""
        self._readers.remove(reader)
        reader.cancel()

    def is_read_here(self) -> bool:
        """Returns whether this thread takes the results."""
        return any(reader.is_read_here() for reader in self._readers)

    def put(self, results: TensorStructure) -> None:
        """Hands over the results of one step of one replica, NumPy arrays."""
        if self._readers:
            self._readers[-1].put(results)

    def put_execution(self, results: TensorStructure) -> None:
        """Hands over the results of an execution that has ended.

        Args:
            results: Tensors of shape `[steps, replicas, ...]`.
        """
        if not self._readers:
            return
        values = tree.map_structure(np.asarray, results)
        for index in np.ndindex(tree.flatten(values)[0].shape[:2]):
            self.put(tree.map_structure(lambda leaf, index=index: leaf[index], values))

    def publish(self, results: TensorStructure) -> None:
        """Adds an op to the host's program that hands these results over as soon as they are there.

        Args:
            results: The results of one step of one replica.
        """
        tf.numpy_function(self._taker(results), tree.flatten(results), [])

    def _taker(self, structure: TensorStructure) -> Callable[..., None]:
        def take(*leaves: np.ndarray) -> None:
            with spans.span("take results", "outfeed"):
                self.put(tree.pack_sequence_as(structure, leaves))

        return take
