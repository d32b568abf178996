"""Sums of tensors whose shapes broadcast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.compat.spellings.spelling import Notify, Spelling
from ipu_tf.internals.keras import keras_backend_numpy
from ipu_tf.internals.patches import Patch, Wrap

_ADDITION = Patch(keras_backend_numpy, "add", "tensors broadcast along their own axes")


def _adding(notify: Notify) -> Wrap:
    """Returns the factory of the sum of two tensors, which broadcasts along the axes as they are.

    Keras 3 takes a second tensor with one size above 1 for a bias if that is the size of the last
    axis or of axis 1 of the first, whichever axis it is along.
    """

    def wrap(stock: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def add(x1: Any, x2: Any) -> Any:
            if not _is_misread(getattr(x1, "shape", ()), getattr(x2, "shape", ())):
                return stock(x1, x2)
            notify()
            dtype = keras.backend.result_type(x1.dtype, x2.dtype)
            return tf.add(*(keras.ops.convert_to_tensor(x, dtype) for x in (x1, x2)))

        return add

    return wrap


def _is_misread(shape: Sequence[int | None], bias: Sequence[int | None]) -> bool:
    """Returns whether Keras 3 adds a tensor along an axis that is not its own."""
    long = [axis for axis, size in enumerate(bias) if size is None or size > 1]
    if len(long) != 1 or bias[long[0]] is None or len(shape) < 2:
        return False
    size, from_end = bias[long[0]], len(bias) - long[0]
    if shape[-1] == size:
        return from_end != 1 or len(bias) > len(shape)
    return shape[1] == size and from_end != len(shape) - 1


SPELLINGS = (
    Spelling(
        name="`x + y`, `Add()([x, y])` of shapes such as `[8, 8]` and `[8, 1]`",
        keras_2="They broadcast.",
        here="They broadcast; Keras 3 alone adds `y` to the columns if there are as many of them.",
        wraps=MappingProxyType({_ADDITION: _adding}),
    ),
)
