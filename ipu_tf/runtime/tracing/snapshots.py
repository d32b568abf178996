"""What a program needs to run once more: the values of its variables before it changes them, and
what operations with effects in its loops, branches and functions gave.

A variable that is assigned gets another buffer, so to keep the old one costs memory but no copy;
nor does a record of results.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import tensorflow as tf

from ipu_tf.internals.graphs import in_jitted_function
from ipu_tf.internals.tensorflow import FuncGraph, OpDef, get_resource_handle_data
from ipu_tf.ops.kernels import library
from ipu_tf.runtime.tracing.call_ops import CALLS

_NO_CHANGE = frozenset({"Placeholder", "ReadVariableOp", "VarIsInitializedOp", "VariableShape"})

RECORD = "IpuReplayRecord"
"""Type of the op that keeps what an op with effects gave."""

REPEATABLE = frozenset(
    {
        "Assert", "IpuFloatingPointCheck", "IpuIndexCheck", "IpuNonfiniteFlag",
        "IpuNonfiniteReplay", RECORD, "NoOp",
    }
)  # fmt: skip
"""Types of ops with effects that a second run repeats without harm, besides those that use
variables."""

COLLECTIVE = "IpuReplicaCollective"
"""Type of the ops that join values of replicas."""

_ENQUEUE = "IpuEnqueue"
_NOT_KEPT = frozenset({tf.resource, tf.variant, tf.string})
_serial = itertools.count(1)


class Snapshots:
    """Reads each variable of a program before the first op that may change it, and records what
    operations with effects give.

    Args:
        graph: The graph of the program; an op of it that calls functions has their variables as
            inputs.

    Attributes:
        graph: The graph.
        operations: The ops that read.
        records: The streams of the records.
    """

    def __init__(self, graph: FuncGraph) -> None:
        self.graph = graph
        self._values: dict[int, tuple[tf.Tensor, tf.Tensor]] = {}
        self.operations: set[tf.Operation] = set()
        self.records: list[int] = []

    @property
    def values(self) -> Mapping[int, tuple[tf.Tensor, tf.Tensor]]:
        """The handle of each variable, and its value, by the id of the handle."""
        return MappingProxyType(self._values)

    def before(self, graph: FuncGraph, op_type: str, inputs: Sequence[tf.Tensor]) -> None:
        """Reads the variables that an op may change, which is about to be created."""
        if graph is not self.graph or op_type in _NO_CHANGE:
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

    def after(self, op: tf.Operation) -> None:
        """Records what an op gives that cannot run twice, of a loop, a branch or a function or from
        other replicas; and adds a look at what leaves the program."""
        if in_jitted_function(op.graph):
            return
        if op.type == _ENQUEUE:
            values = [
                tensor for tensor in op.inputs[2:] if tensor.dtype in (tf.float16, tf.float32)
            ]
            self._record(op, values, after=False)
        elif (op.graph is not self.graph or op.type == COLLECTIVE) and has_effect(
            op.op_def, op.type
        ):
            handles = [tensor for tensor in op.inputs if tensor.dtype == tf.resource]
            uses_variable = any(_dtype_of_variable(handle) for handle in handles)
            if not uses_variable and all(tensor.dtype not in _NOT_KEPT for tensor in op.outputs):
                self._record(op, op.outputs, after=True)

    def _record(self, op: tf.Operation, values: Sequence[tf.Tensor], *, after: bool) -> None:
        if not values:
            return
        self.records.append(next(_serial))
        with op.graph.as_default(), tf.name_scope(f"{op.name}_record/"):
            library.load().ipu_replay_record(values=values, stream=self.records[-1], kept=after)


def has_effect(op_def: OpDef, op_type: str) -> bool:
    """Returns whether ops of a type have effects that a second run would repeat with harm."""
    return bool(op_def.is_stateful) and op_type not in REPEATABLE and op_type not in CALLS


def _dtype_of_variable(handle: tf.Tensor) -> tf.DType | None:
    data = get_resource_handle_data(handle)
    if data is None or not data.is_set or not data.shape_and_type:
        return None
    return tf.as_dtype(data.shape_and_type[0].dtype)
