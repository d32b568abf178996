"""Gradients of joined chains of element-wise ops.

A tape needs them if it records a function that was traced, and joined, before. Importing this
module registers them with TensorFlow.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_tf.internals.tensorflow import gradient_registry

Gradients = tuple[tf.Tensor, ...]


@tf.RegisterGradient("IpuScaledDifference")
def _scaled_difference(op: Any, grad: tf.Tensor) -> Gradients:
    a, b, factor = op.inputs
    square = op.get_attr("square")
    scaled = grad * factor
    of_factor = tf.reduce_sum(grad * ((a * a if square else a) - b))
    of_b = grad - scaled if op.get_attr("add") else -scaled
    return 2.0 * a * scaled if square else scaled, of_b, of_factor


@tf.RegisterGradient("IpuAdamStep")
def _adam_step(op: Any, grad: tf.Tensor) -> Gradients:
    mean, square, rate, epsilon = op.inputs
    root = tf.sqrt(square)
    of_scaled = grad / (root + epsilon)
    of_total = -of_scaled * op.outputs[0]
    of_mean, of_rate = of_scaled * rate, tf.reduce_sum(of_scaled * mean)
    return of_mean, 0.5 * of_total / root, of_rate, tf.reduce_sum(of_total)


@tf.RegisterGradient("IpuSoftmaxGrad")
def _softmax_grad(op: Any, grad: tf.Tensor) -> Gradients:
    y, dy = op.inputs
    of_sum = -tf.reduce_sum(grad * y, -1, keepdims=True)
    total = tf.reduce_sum(dy * y, -1, keepdims=True)
    return grad * (dy - total) + of_sum * dy, grad * y + of_sum * y


tf.no_gradient("IpuArgMax")


@tf.RegisterGradient("IpuSparseSoftmaxLoss")
def _sparse_softmax_loss(op: Any, *grads: tf.Tensor) -> Gradients:
    return gradient_registry.lookup("SparseSoftmaxCrossEntropyWithLogits")(op, *grads)
