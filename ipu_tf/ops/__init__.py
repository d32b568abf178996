"""Tile ops: matmuls and convolutions that execute a plan."""

from ipu_tf.compiler.planner.plan import ConvPlan, MatMulPlan
from ipu_tf.ops import gradients as gradients
from ipu_tf.ops import library
from ipu_tf.ops import vectorization as vectorization
from ipu_tf.ops.convolution import conv2d, depthwise_conv2d
from ipu_tf.ops.matmul import batch_matmul, matmul
from ipu_tf.ops.plan_of import plan_of

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
