"""Gradients that replace TensorFlow's own while a function is traced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import tensorflow as tf

from ipu_tf.ops.gradients import shared_matrices

Gradients = Sequence[tf.Tensor | None]
Gradient = Callable[..., Gradients]


def _slice(stock: Gradient, op: tf.Operation, grad: tf.Tensor) -> Gradients:
    """Returns the gradient of a slice, of static shape even if its position depends on data.

    TensorFlow pads the gradient by the sizes before and after the slice, so that TensorFlow and XLA
    take its shape to depend on data, too.
    """
    tensor, begin, _ = op.inputs
    is_known = tensor.shape.is_fully_defined() and op.outputs[0].shape.is_fully_defined()
    if not is_known or tf.get_static_value(begin) is not None:
        return stock(op, grad)
    padded = tf.raw_ops.StridedSliceGrad(
        shape=tf.constant(tensor.shape.as_list(), begin.dtype),
        begin=begin,
        end=begin + tf.constant(op.outputs[0].shape.as_list(), begin.dtype),
        strides=tf.ones_like(begin),
        dy=grad,
    )
    return padded, None, None


def _batch_matmul(stock: Gradient, op: tf.Operation, grad: tf.Tensor) -> Gradients:
    """Returns the gradients of a batched matmul, one product for a matrix that factors share."""
    x, y = op.inputs
    adj_x, adj_y = op.get_attr("adj_x"), op.get_attr("adj_y")
    shared = shared_matrices.gradients(x, y, grad, adj_x=adj_x, adj_y=adj_y, einsum=_einsum)
    return shared or stock(op, grad)


def _einsum(equation: str, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.Einsum(inputs=[left, right], equation=equation)


GRADIENTS: Mapping[str, Callable[..., Sequence[tf.Tensor | None]]] = MappingProxyType(
    {
        "Slice": _slice,
        "BatchMatMul": _batch_matmul,
        "BatchMatMulV2": _batch_matmul,
        "BatchMatMulV3": _batch_matmul,
    }
)
"""The gradient of each type of op, given TensorFlow's own."""
