"""The values of a program's variables before it changes them, kept until it ends.

A variable that is assigned gets another buffer, so to keep the old one costs memory but no copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import tensorflow as tf

from ipu_tf.internals.tensorflow import FuncGraph, get_resource_handle_data

_NO_CHANGE = frozenset({"Placeholder", "ReadVariableOp", "VarIsInitializedOp", "VariableShape"})


class Snapshots:
    """Reads each variable of a program before the first op that may change it.

    Args:
        graph: The graph of the program; an op of it that calls functions has their variables as
            inputs.

    Attributes:
        operations: The ops that read.
    """

    def __init__(self, graph: FuncGraph) -> None:
        self._graph = graph
        self._values: dict[int, tuple[tf.Tensor, tf.Tensor]] = {}
        self.operations: set[tf.Operation] = set()

    @property
    def values(self) -> Mapping[int, tuple[tf.Tensor, tf.Tensor]]:
        """The handle of each variable, and its value, by the id of the handle."""
        return MappingProxyType(self._values)

    def before(self, graph: FuncGraph, op_type: str, inputs: Sequence[tf.Tensor]) -> None:
        """Reads the variables that an op may change, which is about to be created."""
        if graph is not self._graph or op_type in _NO_CHANGE:
            return
        for tensor in inputs:
            if tensor.dtype != tf.resource:
                continue
            handle = graph.capture(tensor)
            dtype = _dtype_of_variable(handle)
            if id(handle) in self._values or dtype is None:
                continue
            with tf.name_scope("before_run/"):
                value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
            self._values[id(handle)] = handle, value
            self.operations.add(value.op)


def _dtype_of_variable(handle: tf.Tensor) -> tf.DType | None:
    data = get_resource_handle_data(handle)
    if data is None or not data.is_set or not data.shape_and_type:
        return None
    return tf.as_dtype(data.shape_and_type[0].dtype)
