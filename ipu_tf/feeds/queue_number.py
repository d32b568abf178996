"""Numbers of the queues that the ops of programs use (ops/tf/feeds.h), and their lifetimes."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from ipu_tf.feeds import shared_programs
from ipu_tf.ops.kernels import library

_INT32_LIMIT = 2**31


class QueueNumber:
    """A queue of the op library by its number; the queue ends with this object.

    A graph that uses the queue keeps it, so that a traced function goes on working.

    Args:
        kind: "Infeed" or "Outfeed", for errors.
        number: The number.
    """

    def __init__(self, kind: str, number: int) -> None:
        assert number < _INT32_LIMIT
        self._kind = kind
        self.number = number
        self._is_open = False
        self._end = weakref.finalize(self, library.feed_functions().ipu_tf_feed_delete, number)

    def tensor(self) -> tf.Tensor:
        """Returns the number as a constant of the graph that is being built."""
        graph = tf.compat.v1.get_default_graph()
        _users.setdefault(graph, set()).add((self, shared_programs.member()))
        return tf.constant(self.number, tf.int32, name="feed")

    def is_used_in(self, graph: tf.Graph) -> bool:
        """Returns whether the ops of a graph use the queue, those of the same replica if apart."""
        return (self, shared_programs.member()) in _users.get(graph, ())

    def is_used_within(self, graph: tf.Graph) -> bool:
        """Returns whether the ops of a graph, or of a function in it, use the queue."""
        users: Iterable[tf.Graph | None] = [one for one in tuple(_users) if self.is_used_in(one)]
        while users := [user for user in users if user is not None]:
            if graph in users:
                return True
            users = [getattr(user, "outer_graph", None) for user in users]
        return False

    def open(self) -> None:
        """Notes that a dataset fills the queue, or that a program does."""
        self._is_open = True

    def deleter(self, end: Callable[[], None]) -> tf.Operation | None:
        """Ends the queue now, or returns an operation of a graph that does.

        Args:
            end: Makes the programs fail that use the queue.

        Raises:
            NotFoundError: The queue is not open.
        """
        if tf.executing_eagerly():
            self._check(self._close(end))
            return None
        return self._check(tf.numpy_function(lambda: self._close(end), [], tf.bool))

    def _close(self, end: Callable[[], None]) -> bool:
        """Ends the queue, and returns whether it was open."""
        was_open, self._is_open = self._is_open, False
        if was_open:
            end()
        return was_open

    def _check(self, exists: bool | tf.Tensor) -> tf.Operation | None:
        check: tf.Operation | None = library.load().ipu_check_feed(
            feed=self.number,
            exists=exists,
            kind=self._kind,
            cause=f"{_OPENED_BY[self._kind]} did not run, or it was deleted.",
        )
        return check

    def delete(self) -> None:
        """Removes the queue: programs that use it fail from now on."""
        self._end()


_OPENED_BY = {"Infeed": "its `initializer`", "Outfeed": "a program that enqueues it"}
_Use = tuple[QueueNumber, int | None]
_users: weakref.WeakKeyDictionary[Any, set[_Use]] = weakref.WeakKeyDictionary()
_open: weakref.WeakSet[QueueNumber] = weakref.WeakSet()


def new_infeed(read_ahead: int) -> QueueNumber:
    """Returns a new infeed.

    Args:
        read_ahead: Elements that it holds ready for the device.
    """
    return _open_queue("Infeed", library.feed_functions().ipu_tf_infeed_create(read_ahead))


def new_outfeed(*, keeps_last_only: bool) -> QueueNumber:
    """Returns a new outfeed.

    Args:
        keeps_last_only: Whether an element replaces the one before it.
    """
    return _open_queue(
        "Outfeed", library.feed_functions().ipu_tf_outfeed_create(int(keeps_last_only))
    )


def _open_queue(kind: str, number: int) -> QueueNumber:
    queue = QueueNumber(kind, number)
    _open.add(queue)
    return queue


# Threads that read data wait in the op library; they have to end before the interpreter does.
@atexit.register
def _delete_all() -> None:
    for queue in list(_open):
        library.feed_functions().ipu_tf_feed_delete(queue.number)
