"""Converters of tile ops for TensorFlow's vectorisation of loops: batched tile ops.

`tf.vectorized_map`, `batch_jacobian` and `jacobian` trace one iteration and then convert each of
its ops to one that does all iterations at once. A converted tile op keeps the partials and the
rounding of the original op, but has its own plan, because its shape differs.

Importing this module registers them with TensorFlow.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_tf.internals.tensorflow import register_pfor_converter
from ipu_tf.ops.gradients.tile_ops import conv_attributes, numerics_of
from ipu_tf.ops.kernels import library
from ipu_tf.ops.kernels.apply import tile_op

_CHANNELS = 3
"""Axis of the channels of images, and of those that a filter gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Iterations:
    """An op of a loop body, to be converted for all iterations at once.

    Attributes:
        op: The op of one iteration.
        count: Number of iterations.
        operands: Its converted inputs; those that differ between iterations have a leading axis of
            iterations.
        stacked: Whether each input differs between iterations.
        numbers: The numbers of the iterations, from 0. TensorFlow recognises this tensor.
    """

    op: Any
    count: int
    operands: tuple[tf.Tensor, ...]
    stacked: tuple[bool, ...]
    numbers: tf.Tensor

    def stack(self, index: int) -> tf.Tensor:
        """Returns an input with a leading axis of iterations."""
        tensor = self.operands[index]
        if self.stacked[index]:
            return tensor
        return tf.broadcast_to(tensor, [self.count, *tensor.shape])

    def fold(self, index: int, axis: int) -> tf.Tensor:
        """Returns an input with its iterations as the slower part of an axis."""
        tensor = tf.experimental.numpy.moveaxis(self.stack(index), 0, axis)
        shape = tensor.shape.as_list()
        return tf.reshape(tensor, [*shape[:axis], -1, *shape[axis + 2 :]])

    def unfold(self, tensor: tf.Tensor, axis: int) -> tf.Tensor:
        """Returns a result with its iterations, the slower part of an axis, moved to the front."""
        shape = tensor.shape.as_list()
        tensor = tf.reshape(tensor, [*shape[:axis], self.count, -1, *shape[axis + 1 :]])
        return tf.experimental.numpy.moveaxis(tensor, axis, 0)


Convert = Callable[[_Iterations], tf.Tensor]


def _register(op_type: str, convert: Convert) -> None:
    def converter(pfor_input: Any) -> tf.Tensor:
        op = pfor_input.op
        count = _count(pfor_input.pfor.loop_len_vector, op)
        inputs = [(wrapped.t, wrapped.is_stacked) for wrapped in pfor_input.inputs]
        for (tensor, is_stacked), of_body in zip(inputs, op.inputs, strict=True):
            if is_stacked and of_body.shape.rank is not None:
                tensor.set_shape([count, *of_body.shape])
        iterations = _Iterations(
            op=op,
            count=count,
            operands=tuple(tensor for tensor, _ in inputs),
            stacked=tuple(is_stacked for _, is_stacked in inputs),
            numbers=pfor_input.pfor.all_indices,
        )
        return convert(iterations)

    register_pfor_converter(op_type, converter)


def _count(length: tf.Tensor, op: Any) -> int:
    """Returns the number of iterations, which the shapes of batched tile ops depend on."""
    value = tf.get_static_value(length)
    if value is None:
        raise ValueError(
            f"'{op.name}' is in a loop that is vectorised, and its number of iterations is not "
            "static. Shapes are static on the IPU: map over tensors whose first dimension is "
            "known, for example by `drop_remainder=True` or `tf.ensure_shape`."
        )
    return int(value[0])


def _matmul(loop: _Iterations) -> tf.Tensor:
    flip_a, flip_b = loop.op.get_attr("transpose_a"), loop.op.get_attr("transpose_b")
    numerics = numerics_of(loop.op, "MatMul")
    a, b = loop.operands
    if all(loop.stacked):
        flips = {"adj_x": flip_a, "adj_y": flip_b}
        return tile_op("BatchMatMulV2", [a, b], flips, numerics=numerics)
    # The iterations become more rows or more columns of one product.
    if loop.stacked[0]:
        a, axis = loop.fold(0, 1 if flip_a else 0), 0
    else:
        b, axis = loop.fold(1, 0 if flip_b else 1), 1
    flips = {"transpose_a": flip_a, "transpose_b": flip_b}
    return loop.unfold(tile_op("MatMul", [a, b], flips, numerics=numerics), axis)


def _batch_matmul(loop: _Iterations) -> tf.Tensor:
    ranks = [len(tensor.shape) for tensor in loop.op.inputs]
    operands = [
        _with_rank(tensor, max(ranks) + 1) if is_stacked else tensor
        for tensor, is_stacked in zip(loop.operands, loop.stacked, strict=True)
    ]
    flips = {name: loop.op.get_attr(name) for name in ("adj_x", "adj_y")}
    # Version 3 may set the type of the result, which a tile op may not.
    numerics = numerics_of(loop.op, "BatchMatMulV2")
    return tile_op("BatchMatMulV2", operands, flips, numerics=numerics)


def _with_rank(stacked: tf.Tensor, rank: int) -> tf.Tensor:
    """Returns a tensor with axes of size 1 after the first, so that the others broadcast."""
    count, *shape = stacked.shape.as_list()
    return tf.reshape(stacked, [count, *[1] * (rank - 1 - len(shape)), *shape])


def _einsum(loop: _Iterations) -> tf.Tensor:
    equation = loop.op.get_attr("equation").decode()
    label = next(letter for letter in string.ascii_letters if letter not in equation)
    inputs, _, output = equation.partition("->")
    labels = [
        label + part if is_stacked else part
        for part, is_stacked in zip(inputs.split(","), loop.stacked, strict=True)
    ]
    # Only graphs that the tracer sees hold this op, and there it makes a tile op of this one.
    return tf.einsum(f"{','.join(labels)}->{label}{output}", *loop.operands)


def _index_check(loop: _Iterations) -> tf.Tensor:
    attributes = {name: loop.op.get_attr(name) for name in ("kind", "limits", "op_name")}
    (indices,) = loop.operands
    if indices is loop.numbers and loop.count <= min(attributes["limits"]):
        return indices  # A lookup by the number of the iteration becomes no lookup at all.
    return library.load().ipu_index_check(indices, **attributes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Convolution:
    """Converters of the three passes of a convolution.

    Iterations with one filter become more images of a batch. Otherwise each iteration becomes a
    separate group of a grouped convolution; if only its filter differs, it becomes more channels.

    Attributes:
        stock: Type of the stock op of the forward pass.
        filter_axis: Axis of filters with a slice for each group.
        depthwise: Whether each channel has a filter of its own.
    """

    stock: str
    filter_axis: int
    depthwise: bool

    def forward(self, loop: _Iterations) -> tf.Tensor:
        x, w = loop.operands
        if not loop.stacked[1]:
            return loop.unfold(self._run(loop, self.stock, [loop.fold(0, 0), w]), 0)
        if not self._shares_images(loop, w.shape[-2]):
            x = loop.fold(0, _CHANNELS)
        y = self._run(loop, self.stock, [x, loop.fold(1, self.filter_axis)])
        return loop.unfold(y, _CHANNELS)

    def input_gradient(self, loop: _Iterations) -> tf.Tensor:
        _, w, _ = loop.operands
        axis = 0
        if loop.stacked[1]:
            w, axis = loop.fold(1, self.filter_axis), _CHANNELS
        sizes = self._sizes(loop, axis)
        inputs = [tf.constant(sizes), w, loop.fold(2, axis)]
        return loop.unfold(self._run(loop, f"{self.stock}BackpropInput", inputs, sizes), axis)

    def filter_gradient(self, loop: _Iterations) -> tf.Tensor:
        x, _, _ = loop.operands
        if not self._shares_images(loop, loop.op.outputs[0].shape[2]):
            x = loop.fold(0, _CHANNELS)
        sizes = self._sizes(loop, self.filter_axis)
        inputs = [x, tf.constant(sizes), loop.fold(2, _CHANNELS)]
        gradient = self._run(loop, f"{self.stock}BackpropFilter", inputs, sizes)
        return loop.unfold(gradient, self.filter_axis)

    def _shares_images(self, loop: _Iterations, filter_channels: int) -> bool:
        """Whether all iterations read the same images, and each filter reads all channels."""
        images = loop.operands[0]
        is_grouped = self.depthwise or images.shape[_CHANNELS] != filter_channels
        return not loop.stacked[0] and not is_grouped

    def _sizes(self, loop: _Iterations, axis: int) -> list[int]:
        """Returns the sizes of the result of all iterations."""
        sizes: list[int] = loop.op.outputs[0].shape.as_list()
        sizes[axis] *= loop.count
        return sizes

    def _run(
        self,
        loop: _Iterations,
        kind: str,
        inputs: Sequence[tf.Tensor],
        sizes: Sequence[int] | None = None,
    ) -> tf.Tensor:
        numerics = numerics_of(loop.op, kind)
        return tile_op(kind, inputs, conv_attributes(loop.op), sizes=sizes, numerics=numerics)


def _register_convolution(passes: _Convolution) -> None:
    _register(f"Ipu{passes.stock}", passes.forward)
    _register(f"Ipu{passes.stock}BackpropInput", passes.input_gradient)
    _register(f"Ipu{passes.stock}BackpropFilter", passes.filter_gradient)


_register("IpuMatMul", _matmul)
_register("IpuBatchMatMul", _batch_matmul)
_register("IpuBatchMatMulV3", _batch_matmul)
_register("IpuEinsum", _einsum)
_register("IpuCast", lambda loop: tf.cast(loop.operands[0], loop.op.outputs[0].dtype))
_register("IpuIndexCheck", _index_check)
_register_convolution(_Convolution(stock="Conv2D", filter_axis=3, depthwise=False))
_register_convolution(_Convolution(stock="DepthwiseConv2dNative", filter_axis=2, depthwise=True))
