"""Optimizers for the IPU."""

from ipu_tf.keras.optimizers.adam_optimizer import AdamIpuOptimizer
from ipu_tf.keras.optimizers.als_gradient_accumulation_optimizer import (
    ALSGradientAccumulationOptimizer,
)
from ipu_tf.keras.optimizers.als_named_optimizers import (
    ALSOptimizerAdam,
    ALSOptimizerRMSProp,
    ALSOptimizerSGD,
)
from ipu_tf.keras.optimizers.als_optimizer import ALSDefaults, ALSOptimizer
from ipu_tf.keras.optimizers.gradient_accumulation_optimizer import GradientAccumulationOptimizer
from ipu_tf.keras.optimizers.ipu_optimizer_base import IpuOptimizerBase
from ipu_tf.keras.optimizers.lamb_optimizer import LAMBIpuOptimizer
from ipu_tf.keras.optimizers.sgd_optimizer import SGDIpuOptimizer

__all__ = [
    "ALSDefaults",
    "ALSGradientAccumulationOptimizer",
    "ALSOptimizer",
    "ALSOptimizerAdam",
    "ALSOptimizerRMSProp",
    "ALSOptimizerSGD",
    "AdamIpuOptimizer",
    "GradientAccumulationOptimizer",
    "IpuOptimizerBase",
    "LAMBIpuOptimizer",
    "SGDIpuOptimizer",
]
