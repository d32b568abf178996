"""Reads datasets ahead for infeeds, on threads of the host.

A thread reads until its queue is full, and sleeps until programs have taken half of the elements.
It begins when a program first takes an element. One native operation does all of this.
"""

from __future__ import annotations

import threading

import tensorflow as tf

from ipu_tf.internals.tensorflow import eager_mode
from ipu_tf.ops.kernels import library


def start_pass(number: int, dataset: tf.data.Dataset) -> None:
    """Begins to read a dataset from its first element, for the infeed of this number.

    Args:
        number: Number of the infeed; an earlier pass of it ends.
        dataset: The dataset.
    """
    number_of_pass = library.feed_functions().ipu_tf_infeed_restart(number)
    thread = threading.Thread(
        target=_read,
        args=(number, number_of_pass, dataset),
        name=f"ipu_tf_infeed_{number}",
        daemon=True,
    )
    thread.start()


def wait_for_initializer(number: int) -> None:
    """Makes programs fail that dequeue the infeed of this number before a pass begins."""
    message = "The infeed is not initialized: run its `initializer` in the session first."
    _end(number, tf.errors.FAILED_PRECONDITION, message)


def end_deleted(number: int) -> None:
    """Ends the pass over the data of the infeed of this number: programs that dequeue it fail."""
    _end(number, tf.errors.NOT_FOUND, f"Infeed with id={number} does not exist: it was deleted.")


def _end(number: int, code: int, message: str) -> None:
    """Drops the elements of an infeed, and makes programs fail with an error."""
    number_of_pass = library.feed_functions().ipu_tf_infeed_restart(number)
    library.feed_functions().ipu_tf_infeed_end(number, number_of_pass, code, message.encode())


@eager_mode()  # In a program of TensorFlow 1, a thread would build a graph.
def _read(number: int, number_of_pass: int, dataset: tf.data.Dataset) -> None:
    try:
        library.load().ipu_read_dataset(
            dataset=tf.data.experimental.to_variant(dataset),
            feed=tf.constant(number, tf.int64),
            **{"pass_": tf.constant(number_of_pass, tf.int64)},
        )
    except tf.errors.OpError as error:  # The dataset cannot be read at all.
        message = str(error.message).encode()
        library.feed_functions().ipu_tf_infeed_end(
            number, number_of_pass, error.error_code, message
        )
