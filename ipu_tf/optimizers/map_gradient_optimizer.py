"""An optimizer that changes gradients before they are applied."""

from __future__ import annotations

from collections.abc import Callable

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
        gradient_mapping_function: Callable[[tf.Tensor, tf.Variable], tf.Tensor],
        name: str = "MapGradientOptimizer",
    ) -> None:
        super().__init__(wrapped_optimizer, name)
        self._map = gradient_mapping_function

    def compute_gradients(
        self, *args: object, **kwargs: object
    ) -> list[tuple[tf.Tensor, tf.Variable]]:
        """Returns the changed gradients of a loss, each with its variable."""
        compute: Callable[..., list[tuple[tf.Tensor, tf.Variable]]] = super().compute_gradients
        pairs = compute(*args, **kwargs)
        return [(self._map(gradient, variable), variable) for gradient, variable in pairs]
