"""Replaces the sizes of tensor lists by constants if they are static.

The gradient of a loop makes lists as long as those that the loop reads. TensorFlow queries a
list's length and element shape while the program runs, and passes the answers from the loop to its
gradient on more lists; shapes are static on the IPU, so they are known at the op's creation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from ipu_tf.internals.graphs import loop_body, loop_of_body
from ipu_tf.internals.tensorflow import FuncGraph
from ipu_tf.runtime.tracing.call_ops import LOOPS


def constant_of(
    op_type: str, inputs: Sequence[tf.Tensor], attrs: Mapping[str, tf.compat.v1.AttrValue]
) -> dict[str, tf.compat.v1.AttrValue] | None:
    """Returns the attributes of the Const that an op equals, None if the op must run.

    Args:
        op_type: One of `SIZES`.
        inputs: Its inputs, a list first.
        attrs: Its attributes.
    """
    value = SIZES[op_type](_source(inputs[0]))
    if value is None:
        return None
    dtype = tf.as_dtype(attrs["shape_type"].type) if "shape_type" in attrs else tf.int32
    proto = tf.make_tensor_proto(np.array(value), dtype)
    return {
        "value": tf.compat.v1.AttrValue(tensor=proto),
        "dtype": tf.compat.v1.AttrValue(type=dtype.as_datatype_enum),
    }


def _length(op: tf.Operation) -> int | None:
    if op.type == "TensorListFromTensor":
        shape = op.inputs[0].shape
        return None if shape.rank is None else shape[0]
    if op.type == "TensorListReserve":
        value = tf.get_static_value(op.inputs[1])
        return None if value is None else int(value)
    return None


def _element_shape(op: tf.Operation) -> list[int] | None:
    if op.type == "TensorListFromTensor":
        shape = op.inputs[0].shape[1:]
    elif op.type == "TensorListReserve":
        value = tf.get_static_value(op.inputs[0])
        shape = tf.TensorShape(None if value is None or value.ndim == 0 else value.tolist())
    else:
        return None
    return shape.as_list() if shape.is_fully_defined() else None


def _source(tensor: tf.Tensor) -> tf.Operation:
    """Returns the op that creates a list, outside of the loops that read or carry it."""
    while (before := _of_same_size(tensor)) is not None:
        tensor = before
    return tensor.op


def _of_same_size(tensor: tf.Tensor) -> tf.Tensor | None:
    """Returns the list from which a list is made, None if their sizes may differ."""
    op, graph = tensor.op, tensor.graph
    if op.type == "Identity":
        return op.inputs[0]
    if op.type == "TensorListSetItem":
        return None if op.get_attr("resize_if_index_out_of_bounds") else op.inputs[0]
    if op.type in LOOPS:
        body = loop_body(op)
        return op.inputs[tensor.value_index] if _keeps(body, tensor.value_index) else None
    if not isinstance(graph, FuncGraph) or op.type != "Placeholder":
        return None
    outer = next((outer for outer, inner in graph.captures if inner is tensor), None)
    if outer is not None:
        return outer if hasattr(outer, "op") else None
    # TensorFlow records the loop of a body when it builds the gradient.
    loop = loop_of_body(graph)
    index = next((i for i, parameter in enumerate(graph.inputs) if parameter is tensor), None)
    if loop is None or index is None or not _keeps(graph, index):
        return None
    return loop.inputs[index]


def _keeps(body: FuncGraph | None, index: int) -> bool:
    """Returns whether every iteration of a loop keeps the length of a list in its state."""
    if body is None:
        return False
    tensor = body.outputs[index]
    while tensor is not body.inputs[index]:
        if tensor.op.type not in ("Identity", "TensorListSetItem"):
            return False
        before = _of_same_size(tensor)
        if before is None:
            return False
        tensor = before
    return True


SIZES: Mapping[str, Callable[[tf.Operation], int | list[int] | None]] = {
    "TensorListLength": _length,
    "TensorListElementShape": _element_shape,
}
"""From the op that makes a list to its size, by the type of the op that asks for it."""
