"""Reads datasets ahead for infeeds, on threads of the host.

A thread reads until its queue is full, in one native loop, and sleeps until a program has taken
half of the elements. It begins when a program first takes an element.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipu_tf.internals.tensorflow import OwnedIterator
from ipu_tf.ops import library

Pull = Callable[[Any, tf.Tensor, tf.Tensor], Any]
"""Moves elements from an iterator to the queue and the pass of these numbers until it is full."""


def pull_function() -> Pull:
    """Returns a function that moves elements; it is traced once for each type of elements."""

    @tf.function(autograph=False)
    def pull(iterator: Any, feed: tf.Tensor, number_of_pass: tf.Tensor) -> None:
        def move(_: tf.Tensor) -> tf.Tensor:
            components = tf.nest.flatten(iterator.get_next())
            ops = library.load()
            wanted: tf.Tensor = ops.ipu_infeed_push(
                feed=feed, **{"pass_": number_of_pass}, tensors=components
            )
            return wanted

        tf.while_loop(lambda wanted: wanted, move, [tf.constant(True)], parallel_iterations=1)

    return pull


def start_pass(number: int, dataset: tf.data.Dataset, pull: Pull) -> None:
    """Begins to read a dataset from its first element, for the infeed of this number.

    Args:
        number: Number of the infeed; an earlier pass of it ends.
        dataset: The dataset.
        pull: From `pull_function`.
    """
    number_of_pass = library.feed_functions().ipu_tf_infeed_restart(number)
    thread = threading.Thread(
        target=_read,
        args=(number, number_of_pass, dataset, pull),
        name=f"ipu_tf_infeed_{number}",
        daemon=True,
    )
    thread.start()


def _read(number: int, number_of_pass: int, dataset: tf.data.Dataset, pull: Pull) -> None:
    functions = library.feed_functions()
    iterator = None
    try:
        while functions.ipu_tf_infeed_wait(number, number_of_pass):
            if iterator is None:
                # Not `iter`: in a strategy's scope that makes an infeed.
                iterator = OwnedIterator(dataset)
            pull(iterator, tf.constant(number, tf.int64), tf.constant(number_of_pass, tf.int64))
    except tf.errors.OutOfRangeError:
        message = "End of sequence: the dataset of the infeed has no more elements."
        _end(number, number_of_pass, tf.errors.OUT_OF_RANGE, message)
    except tf.errors.OpError as error:
        _end(number, number_of_pass, error.error_code, str(error.message))
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        _end(number, number_of_pass, tf.errors.UNKNOWN, message)


def _end(number: int, number_of_pass: int, code: int, message: str) -> None:
    library.feed_functions().ipu_tf_infeed_end(number, number_of_pass, code, message.encode())
