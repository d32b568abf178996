"""Optimizers of TensorFlow 1 that wrap others, for loops of the device."""

from ipu_tf.gradient_accumulation import GradientAccumulationReductionMethod
from ipu_tf.optimizers.cross_replica_optimizer import CrossReplicaOptimizer
from ipu_tf.optimizers.gradient_accumulation_optimizer import (
    CrossReplicaGradientAccumulationOptimizer,
    CrossReplicaGradientAccumulationOptimizerV2,
    GradientAccumulationOptimizer,
    GradientAccumulationOptimizerV2,
)
from ipu_tf.optimizers.ipu_optimizer import IpuOptimizer
from ipu_tf.optimizers.map_gradient_optimizer import MapGradientOptimizer
from ipu_tf.optimizers.sharded_optimizer import ShardedOptimizer

__all__ = [
    "CrossReplicaGradientAccumulationOptimizer",
    "CrossReplicaGradientAccumulationOptimizerV2",
    "CrossReplicaOptimizer",
    "GradientAccumulationOptimizer",
    "GradientAccumulationOptimizerV2",
    "GradientAccumulationReductionMethod",
    "IpuOptimizer",
    "MapGradientOptimizer",
    "ShardedOptimizer",
]
