"""Tile ops: matmuls and convolutions that execute a plan."""

from ipu_tf.ops.gradients import chains as chains
from ipu_tf.ops.gradients import element_chains as element_chains
from ipu_tf.ops.gradients import normalization as normalization
from ipu_tf.ops.gradients import tile_ops as tile_ops
from ipu_tf.ops.gradients import vectorization as vectorization
from ipu_tf.ops.kernels import library
from ipu_tf.ops.kernels.convolution import conv2d, depthwise_conv2d
from ipu_tf.ops.kernels.matmul import batch_matmul, matmul
from ipu_tf.ops.kernels.plan_of import plan_of
from ipu_tf.planner.plan import ConvPlan, MatMulPlan

# Loaded at import: a library for another TensorFlow fails here, and saved graphs know the ops.
library.load()

__all__ = [
    "ConvPlan",
    "MatMulPlan",
    "batch_matmul",
    "conv2d",
    "depthwise_conv2d",
    "matmul",
    "plan_of",
]
