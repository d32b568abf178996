"""Gradients of the tile ops: tile ops again, with the partials and rounding of the op itself.

Importing this module registers them with TensorFlow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ipu_tf import config
from ipu_tf.internals.tensorflow import gradient_registry
from ipu_tf.ops.gradients import shared_matrices
from ipu_tf.ops.kernels import library
from ipu_tf.ops.kernels.apply import tile_op
from ipu_tf.ops.kernels.numerics import (
    GRADIENT_PLANNING,
    TileNumerics,
    numerics_for,
    with_planning,
)
from ipu_tf.ops.kernels.twins import TWINS

Gradients = tuple[tf.Tensor | None, ...]


def numerics_of(op: tf.Operation, stock: str) -> TileNumerics:
    """Returns the numerics of the gradients of `op`, on the current machine.

    They are those that it was created with, but stages of a pipeline have planner options for each
    pass.
    """
    numerics = dataclasses.replace(
        numerics_for(TWINS[stock].family, config.device_configuration()),
        partials=op.get_attr("partials").decode(),
        stochastic_rounding=op.get_attr("rounding") == b"stochastic",
        nanoo=op.get_attr("nanoo"),
    )
    if not isinstance(op, tf.Operation):  # A tape has its own record of an op.
        return numerics
    try:
        planning = op.get_attr(GRADIENT_PLANNING)
    except ValueError:  # The op is in no stage with options.
        return numerics
    return with_planning(numerics, planning.decode())


def conv_attributes(op: tf.Operation) -> dict[str, object]:
    """Returns the attributes that all passes of the convolution `op` share, as Python values."""
    names = ["strides", "padding", "explicit_paddings", "data_format", "dilations"]
    attributes = {name: op.get_attr(name) for name in names}
    attributes["padding"] = attributes["padding"].decode()
    attributes["data_format"] = attributes["data_format"].decode()
    return attributes


tf.no_gradient("IpuIndexCheck")


@tf.RegisterGradient("IpuMatMul")
def _matmul(op: Any, grad: tf.Tensor) -> Gradients:
    return _matmul_gradients(op, op.inputs, grad, "MatMul", "transpose_a", "transpose_b")


@tf.RegisterGradient("IpuBatchMatMul")
def _batch_matmul(op: Any, grad: tf.Tensor) -> Gradients:
    numerics = numerics_of(op, "BatchMatMulV2")

    def einsum(equation: str, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        return tile_op("Einsum", [left, right], {"equation": equation}, numerics=numerics)

    x, y = op.inputs
    adj_x, adj_y = op.get_attr("adj_x"), op.get_attr("adj_y")
    shared = shared_matrices.gradients(x, y, grad, adj_x=adj_x, adj_y=adj_y, einsum=einsum)
    if shared is not None:
        return shared
    left, right = _matmul_gradients(op, op.inputs, grad, "BatchMatMulV2", "adj_x", "adj_y")
    return _unbroadcast(left, x.shape), _unbroadcast(right, y.shape)


@tf.RegisterGradient("IpuBatchMatMulV3")
def _batch_matmul_v3(op: Any, grad: tf.Tensor) -> Gradients:
    return _batch_matmul(op, grad)


def _matmul_gradients(
    op: Any,
    operands: Sequence[tf.Tensor],
    grad: tf.Tensor,
    stock: str,
    flip_a: str,
    flip_b: str,
) -> Gradients:
    a, b = operands
    flipped_a, flipped_b = op.get_attr(flip_a), op.get_attr(flip_b)
    numerics = numerics_of(op, stock)

    def product(x: tf.Tensor, y: tf.Tensor, flip_x: bool, flip_y: bool) -> tf.Tensor:
        return tile_op(stock, [x, y], {flip_a: flip_x, flip_b: flip_y}, numerics=numerics)

    if flipped_a:
        grad_a = product(b, grad, flipped_b, True)
    else:
        grad_a = product(grad, b, False, not flipped_b)
    if flipped_b:
        grad_b = product(grad, a, True, flipped_a)
    else:
        grad_b = product(a, grad, not flipped_a, False)
    return grad_a, grad_b


def _unbroadcast(grad: tf.Tensor, shape: tf.TensorShape) -> tf.Tensor:
    """Returns `grad` summed over the batch dimensions that were broadcast from `shape`."""
    extra_axes = len(grad.shape) - len(shape)
    grad = tf.reduce_sum(grad, axis=list(range(extra_axes))) if extra_axes else grad
    stretched = [i for i, size in enumerate(shape[:-2]) if size == 1 and grad.shape[i] != 1]
    return tf.reduce_sum(grad, axis=stretched, keepdims=True) if stretched else grad


def _run(op: Any, kind: str, inputs: list[tf.Tensor], sizes: list[int] | None) -> tf.Tensor:
    """Runs a pass of the convolution that `op` is a pass of."""
    numerics = numerics_of(op, kind)
    return tile_op(kind, inputs, conv_attributes(op), sizes=sizes, numerics=numerics)


def _input_gradient(
    op: Any, stock: str, image: tf.Tensor, w: tf.Tensor, dy: tf.Tensor
) -> tf.Tensor:
    sizes = image.shape.as_list()
    return _run(op, f"{stock}BackpropInput", [tf.constant(sizes), w, dy], sizes)


def _filter_gradient(op: Any, stock: str, x: tf.Tensor, w: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
    sizes = w.shape.as_list()
    return _run(op, f"{stock}BackpropFilter", [x, tf.constant(sizes), dy], sizes)


def _of_conv(op: Any, stock: str, grad: tf.Tensor) -> Gradients:
    x, w = op.inputs[:2]
    return _input_gradient(op, stock, x, w, grad), _filter_gradient(op, stock, x, w, grad)


def _of_input_gradient(op: Any, stock: str, grad: tf.Tensor) -> Gradients:
    _, w, dy = op.inputs[:3]
    return None, _filter_gradient(op, stock, grad, w, dy), _run(op, stock, [grad, w], None)


def _of_filter_gradient(op: Any, stock: str, grad: tf.Tensor) -> Gradients:
    x, _, dy = op.inputs
    return _input_gradient(op, stock, x, grad, dy), None, _run(op, stock, [x, grad], None)


def _register_conv(stock: str) -> None:
    """Registers the gradients of the three passes of a convolution."""

    @tf.RegisterGradient(f"Ipu{stock}")
    def of_conv(op: Any, grad: tf.Tensor) -> Gradients:
        return _of_conv(op, stock, grad)

    @tf.RegisterGradient(f"Ipu{stock}BackpropInput")
    def of_input_gradient(op: Any, grad: tf.Tensor) -> Gradients:
        return _of_input_gradient(op, stock, grad)

    @tf.RegisterGradient(f"Ipu{stock}BackpropFilter")
    def of_filter_gradient(op: Any, grad: tf.Tensor) -> Gradients:
        return _of_filter_gradient(op, stock, grad)


_register_conv("Conv2D")
_register_conv("DepthwiseConv2dNative")


@tf.RegisterGradient("IpuConv2DBias")
def _conv_bias(op: Any, grad: tf.Tensor) -> Gradients:
    grad = _before_relu(op, grad)
    return *_of_conv(op, "Conv2D", grad), tf.reduce_sum(grad, axis=[0, 1, 2])


@tf.RegisterGradient("IpuConv2DBackpropFilterWithBias")
def _filter_and_bias_gradient(op: Any, grad: tf.Tensor, bias: tf.Tensor) -> Gradients:
    x_gradient, _, dy_gradient = _of_filter_gradient(op, "Conv2D", grad)
    return x_gradient, None, dy_gradient + bias


@tf.RegisterGradient("IpuMatMulBias")
def _matmul_bias(op: Any, grad: tf.Tensor) -> Gradients:
    grad = _before_relu(op, grad)
    a, b, _ = op.inputs
    left, right = _matmul_gradients(op, (a, b), grad, "MatMul", "transpose_a", "transpose_b")
    return left, right, tf.reduce_sum(grad, axis=0)


def _before_relu(op: Any, grad: tf.Tensor) -> tf.Tensor:
    """Returns the gradient before the op's ReLU, if it has one."""
    return (
        tf.raw_ops.ReluGrad(gradients=grad, features=op.outputs[0]) if op.get_attr("relu") else grad
    )


@tf.RegisterGradient("IpuMaxPoolGrad")
def _max_pool_grad(op: Any, grad: tf.Tensor) -> Gradients:
    if op.get_attr("relu"):
        grad = tf.raw_ops.ReluGrad(gradients=grad, features=op.inputs[0])
    return gradient_registry.lookup("MaxPoolGrad")(op, grad)


@tf.RegisterGradient("IpuMaskedScale")
def _masked_scale(op: Any, grad: tf.Tensor) -> Gradients:
    x, mask, scale = op.inputs
    of_scale = tf.reduce_sum(tf.where(mask, x * grad, tf.zeros_like(x)))
    return library.load().ipu_masked_scale(grad, mask, scale), None, of_scale


tf.no_gradient("IpuDropoutMask")
tf.no_gradient("IpuStatefulDropoutMask")


@tf.RegisterGradient("IpuEinsum")
@tf.RegisterGradient("IpuTransposedMatMul")
def _einsum(op: Any, grad: tf.Tensor) -> Gradients:
    # In graphs the tracer makes tile ops of the ops that the stock gradient creates.
    return gradient_registry.lookup("Einsum")(op, grad)


@tf.RegisterGradient("IpuCast")
def _cast(op: Any, grad: tf.Tensor) -> Gradients:
    return (tf.cast(grad, op.inputs[0].dtype),)
