"""An optimizer that changes gradients before they are applied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipu_tf.optimizers.ipu_optimizer import IpuOptimizer


class MapGradientOptimizer(IpuOptimizer):
    """Computes gradients with the wrapped optimizer and passes each through a function.

    Args:
        wrapped_optimizer: A `tf.compat.v1.train.Optimizer`.
        gradient_mapping_function: Maps a gradient and its variable to the new gradient.
        name: Name of the optimizer.

    Raises:
        TypeError: `wrapped_optimizer` is another kind of optimizer.
    """

    def __init__(
        self,
        wrapped_optimizer: tf.compat.v1.train.Optimizer,
        gradient_mapping_function: Callable[[Any, Any], Any],
        name: str = "MapGradientOptimizer",
    ) -> None:
        super().__init__(wrapped_optimizer, name)
        self._map = gradient_mapping_function

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Returns the changed gradients of a loss, each with its variable."""
        found = super().compute_gradients(*args, **kwargs)
        return [(self._map(gradient, variable), variable) for gradient, variable in found]
