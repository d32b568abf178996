"""Types of the arguments of layers, as the layers of either Keras take them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import tensorflow as tf

Activation: TypeAlias = "str | Callable[..., tf.Tensor] | None"
"""An activation function or its name, None for none."""

Initializer: TypeAlias = "str | Callable[..., tf.Tensor] | Mapping[str, object] | None"
"""An initializer, its name or its configuration, None for the default."""

Regularizer: TypeAlias = "str | Callable[[tf.Tensor], tf.Tensor] | Mapping[str, object] | None"
"""A regularizer, its name or its configuration, None for none."""

Constraint: TypeAlias = "str | Callable[[tf.Tensor], tf.Tensor] | Mapping[str, object] | None"
"""A constraint, its name or its configuration, None for none."""

SeedPair: TypeAlias = "tf.Tensor | np.ndarray | Sequence[int] | None"
"""Two whole numbers of 32 bits, None for other values at every call."""
