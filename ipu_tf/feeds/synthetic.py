"""Data that the device makes up instead of moving it, as TF_POPLAR_FLAGS requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ipu_tf.config import SyntheticDataCategory, poplar_flags
from ipu_tf.internals.structures import SpecStructure

_SEED = (1, 2)


def is_synthetic(category: SyntheticDataCategory) -> bool:
    """Returns whether the flags request synthetic data of a category."""
    flags = poplar_flags()
    return flags.use_synthetic_data or category in flags.synthetic_data_categories


def element(components: Sequence[tf.TypeSpec]) -> list[tf.Tensor]:
    """Returns made-up components: zeros, or what `--synthetic_data_initializer` says.

    Args:
        components: Their specs.

    Raises:
        ValueError: The initializer is neither "random" nor a number.
    """
    initializer = poplar_flags().synthetic_data_initializer
    return [_made_up(component, initializer) for component in components]


def zeros(element_spec: SpecStructure) -> tf.data.Dataset:
    """Returns a dataset without end of elements of zeros.

    Args:
        element_spec: Shapes and types of an element.
    """
    element = tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), element_spec)
    return tf.data.Dataset.from_tensors(element).repeat()


def _made_up(component: Any, initializer: str) -> tf.Tensor:
    shape, dtype = component.shape, component.dtype
    if initializer == "random":
        values = tf.random.stateless_uniform(shape, _SEED)
        return tf.cast(values, dtype) if dtype.is_floating else tf.zeros(shape, dtype)
    try:
        value = float(initializer or 0)
    except ValueError:
        raise ValueError(
            "--synthetic_data_initializer of TF_POPLAR_FLAGS is 'random' or a number. "
            f"Received: {initializer!r}."
        ) from None
    return tf.cast(tf.fill(shape, tf.constant(value, tf.float32)), dtype)
