"""An optimizer for programs that are laid over several IPUs."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from ipu_tf.optimizers.ipu_optimizer import IpuOptimizer


class ShardedOptimizer(IpuOptimizer):
    """Wraps an optimizer in a sharded program.

    Gradients and updates are on the IPU of the operations that they belong to in any case, so
    every call is passed on.

    Args:
        optimizer: A `tf.compat.v1.train.Optimizer`.

    Raises:
        TypeError: `optimizer` is another kind of optimizer.
    """

    def __init__(self, optimizer: tf.compat.v1.train.Optimizer) -> None:
        super().__init__(optimizer, "ShardedOptimizer")

    def compute_gradients(
        self, loss: tf.Tensor, var_list: Sequence[tf.Variable] | None = None, **kwargs: object
    ) -> list[tuple[tf.Tensor, tf.Variable]]:
        """Returns the gradients of a loss, each with its variable."""
        return super().compute_gradients(loss, var_list, **kwargs)
