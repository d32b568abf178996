"""Variables as TensorFlow 1 had them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from ipu_tf.internals import patches
from ipu_tf.internals.patches import installed


@contextlib.contextmanager
def variables_tell_their_beginning() -> Iterator[None]:
    """Gives variables `initialized_value`, which TensorFlow has for reference variables alone."""
    with installed({patches.INITIALIZED_VALUES: _wrap}):
        yield


def _wrap(stock: Callable[[Any], Any]) -> Callable[[Any], Any]:
    del stock  # It raises.

    def initialized_value(variable: tf.Variable) -> tf.Tensor:
        with tf.init_scope():
            return tf.cond(
                tf.compat.v1.is_variable_initialized(variable),
                variable.read_value,
                lambda: variable.initial_value,
            )

    return initialized_value
