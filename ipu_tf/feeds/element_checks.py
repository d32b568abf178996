"""What an element of a feed may be: dense, of static shape, of at most 32 bits."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

_MAX_BYTES = 4


def check_types(components: Sequence[tf.TypeSpec]) -> None:
    """Checks that the device can take the components of a feed's elements.

    Args:
        components: Tensors or specs of static shape.

    Raises:
        FailedPreconditionError: A component has 64 bits, or no bits that a tile can hold.
        InvalidArgumentError: A component has no elements.
    """
    for index, component in enumerate(components):
        dtype = tf.as_dtype(component.dtype)
        if not dtype.is_numpy_compatible or dtype == tf.string or dtype.size > _MAX_BYTES:
            raise tf.errors.FailedPreconditionError(
                None,
                None,
                f"Unsupported datatype {dtype.name} on index {index} of feed operation. The IPU "
                "has no 64-bit numbers and no strings: tf.cast it to int32 or float32, in a "
                "dataset in `Dataset.map`.",
            )
        if 0 in component.shape:
            raise tf.errors.InvalidArgumentError(
                None,
                None,
                f"The component on index {index} of feed operation has shape {component.shape}, "
                "which has no elements. Every dimension has to be at least 1.",
            )
