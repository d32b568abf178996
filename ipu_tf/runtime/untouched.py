"""Variables whose values nobody needs: their memory is reserved and never touched.

An operating system gives pages to a process when it first writes to them, so a model whose
variables are never written costs address space only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

_SMALL_BYTES = 64 * 1024
"""Below this a variable is initialised as usual: counters, rates and seeds may be read."""


@contextlib.contextmanager
def untouched_variables() -> Iterator[None]:
    """Leaves the large variables that are made inside without a value.

    Their initialisers tell shape and type and do not run. Functions that use such variables may be
    traced; what they compute from them is meaningless.
    """
    with tf.variable_creator_scope(_create):
        yield


def _create(next_creator: Callable[..., Any], **kwargs: Any) -> Any:
    initial_value = kwargs.get("initial_value")
    if callable(initial_value):
        spec = _spec(initial_value, kwargs.get("dtype"))
        if spec.shape.is_fully_defined() and spec.shape.num_elements() * spec.dtype.size > (
            _SMALL_BYTES
        ):
            kwargs["initial_value"] = lambda: tf.raw_ops.Empty(shape=spec.shape, dtype=spec.dtype)
    return next_creator(**kwargs)


def _spec(initial_value: Callable[[], Any], dtype: Any) -> tf.TensorSpec:
    """Returns shape and type of what an initialiser makes, without running it."""
    with tf.Graph().as_default():
        value = tf.convert_to_tensor(initial_value(), dtype=dtype)
        return tf.TensorSpec(value.shape, value.dtype)
