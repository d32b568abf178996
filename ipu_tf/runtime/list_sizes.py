"""Sizes of tensor lists as constants, where they are static.

The gradient of a loop makes lists as long as those that the loop reads. TensorFlow asks a list for
its length and element shape while the program runs and carries the answers from the loop to its
gradient on more lists; shapes are static on the IPU, so they are known when the op is created.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_tf._private import FuncGraph


def constant_of(
    op_type: str, inputs: Sequence[tf.Tensor], attrs: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Returns the attributes of the Const that an op equals, None where it has to run.

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
    if op.type != "TensorListFromTensor":
        return None
    shape = op.inputs[0].shape
    return shape[1:].as_list() if shape.is_fully_defined() else None


def _source(tensor: tf.Tensor) -> tf.Operation:
    """Returns the op that makes a list, in the graph outside of the loops that read it."""
    while isinstance(graph := tensor.graph, FuncGraph):
        outer = next((outer for outer, inner in graph.captures if inner is tensor), None)
        if outer is None or not hasattr(outer, "op"):
            break
        tensor = outer
    return tensor.op


SIZES: Mapping[str, Callable[[tf.Operation], int | list[int] | None]] = {
    "TensorListLength": _length,
    "TensorListElementShape": _element_shape,
}
"""From the op that makes a list to its size, by the type of the op that asks for it."""
