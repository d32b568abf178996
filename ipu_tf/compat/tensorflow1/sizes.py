"""Sizes of shapes as TensorFlow 1 took them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from ipu_tf.internals.patches import Patch, installed

_SIZES_OF_SHAPES = Patch(
    tf.compat.v1.Dimension, "__init__", "sizes of shapes may be whole numbers that are floats"
)


@contextlib.contextmanager
def sizes_may_be_floats() -> Iterator[None]:
    """Takes floats that are whole numbers, such as `channels / groups`, for sizes of shapes."""
    with installed({_SIZES_OF_SHAPES: _wrap}):
        yield


def _wrap(stock: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    def make(dimension: Any, value: Any) -> None:
        is_whole = isinstance(value, float) and value.is_integer()
        stock(dimension, int(value) if is_whole else value)

    return make
