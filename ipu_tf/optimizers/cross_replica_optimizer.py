"""An optimizer that applies the mean gradients of all replicas."""

from __future__ import annotations

import tensorflow as tf

from ipu_tf.ops.cross_replica_ops import cross_replica_mean
from ipu_tf.ops.kernels import replica_context
from ipu_tf.optimizers.ipu_optimizer import GradientsAndVariables, IpuOptimizer


def apply_cross_replica_op_single(grad: tf.Tensor, var: tf.Variable) -> tf.Tensor:
    """Returns the mean of a variable's gradient over the replicas, None for no gradient."""
    del var
    return None if grad is None else cross_replica_mean(tf.convert_to_tensor(grad))


def apply_cross_replica_op(
    grads_and_vars: GradientsAndVariables,
) -> list[tuple[tf.Tensor, tf.Variable]]:
    """Returns the means of gradients over the replicas, each with its variable."""
    return [(apply_cross_replica_op_single(grad, var), var) for grad, var in grads_and_vars]


class CrossReplicaOptimizer(IpuOptimizer):
    """Applies the means of the gradients of all replicas with the wrapped optimizer.

    Args:
        opt: A `tf.compat.v1.train.Optimizer`.
        name: Name of the optimizer.

    Raises:
        TypeError: `opt` is another kind of optimizer.
    """

    def __init__(
        self, opt: tf.compat.v1.train.Optimizer, name: str = "CrossReplicaOptimizer"
    ) -> None:
        super().__init__(opt, name)

    def apply_gradients(
        self,
        grads_and_vars: GradientsAndVariables,
        global_step: tf.Variable | None = None,
        name: str | None = None,
    ) -> tf.Operation:
        """Returns an operation that updates the variables, by the same values on all replicas."""
        # In a strategy, optimizers of TensorFlow 1 sum over the replicas what they apply.
        replicas = replica_context.num_replicas() if tf.distribute.has_strategy() else 1
        means = [
            (None if mean is None else mean * tf.constant(1 / replicas, mean.dtype), var)
            for mean, var in apply_cross_replica_op(grads_and_vars)
        ]
        return super().apply_gradients(means, global_step, name)
