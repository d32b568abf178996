"""Types of shapes, of gradients, and of structures of tensors, as `tf.nest` takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import tensorflow as tf

TensorStructure: TypeAlias = (
    "tf.Tensor | Sequence[TensorStructure] | Mapping[str, TensorStructure] | None"
)
"""A tensor, or tuples, lists and mappings of such."""

SpecStructure: TypeAlias = (
    "tf.TypeSpec | Sequence[SpecStructure] | Mapping[str, SpecStructure] | None"
)
"""The same of `tf.TensorSpec`s."""

Shape: TypeAlias = Sequence[int | None]
"""The sizes of the axes, None where one is unknown."""

DType: TypeAlias = "tf.DType | np.dtype | type[np.generic] | str"
"""The type of the elements of a tensor, or its name."""

Gradient: TypeAlias = "tf.Tensor | tf.IndexedSlices | None"
"""The gradient of a weight, None for a weight that the loss does not depend on."""

TensorLike: TypeAlias = "tf.types.experimental.TensorLike"
"""A tensor, or an array or a number that can become one."""

ArrayStructure: TypeAlias = (
    "TensorLike | Sequence[ArrayStructure] | Mapping[str, ArrayStructure] | None"
)
"""An array or a tensor, or tuples, lists and mappings of such."""
