"""Types of structures of tensors, as `tf.nest` takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import tensorflow as tf

TensorStructure: TypeAlias = (
    "tf.Tensor | Sequence[TensorStructure] | Mapping[str, TensorStructure] | None"
)
"""A tensor, or tuples, lists and mappings of such."""

SpecStructure: TypeAlias = (
    "tf.TypeSpec | Sequence[SpecStructure] | Mapping[str, SpecStructure] | None"
)
"""The same of `tf.TensorSpec`s."""
