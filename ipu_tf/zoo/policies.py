"""Keras' dtype policy for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import keras


@contextlib.contextmanager
def dtype_policy(name: str) -> Iterator[None]:
    """Sets the dtype policy of the layers that are made inside."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
