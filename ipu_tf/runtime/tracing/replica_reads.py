"""Reads of iterators in a program on several replicas: each gets elements of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ipu_tf.ops.kernels import replica_context

_NEXT = frozenset({"IteratorGetNext", "IteratorGetNextSync"})
_OPTIONAL = "IteratorGetNextAsOptional"
READS = _NEXT | {_OPTIONAL}
"""The ops that read an iterator."""


def of_replica(
    op_type: str, inputs: Sequence[tf.Tensor], name: str
) -> tuple[str, Sequence[tf.Tensor]]:
    """Returns the type and the inputs of the op that reads an iterator on a replica.

    The k-th read of replica r gets element k * R + r of an iterator from outside of the program. An
    iterator that the program makes is the replica's own.

    Args:
        op_type: One of `READS`.
        inputs: Its inputs.
        name: Its name, for errors.

    Raises:
        NotImplementedError: It asks whether there is a next element.
    """
    trace = replica_context.current()
    if trace is None or trace.replica is None or not _is_outside(inputs[0], trace.replica.graph):
        return op_type, inputs
    if op_type == _OPTIONAL:
        raise NotImplementedError(
            f"'{name}' asks an iterator whether it has a next element, in a program on "
            f"{trace.count} replicas, which must all take the same course. Call `next(iterator)` "
            "in a loop of known length."
        )
    return "IpuReplicaGetNext", [trace.replica, *inputs]


def _is_outside(tensor: Any, program: Any) -> bool:
    """Returns whether a tensor comes from outside of the graph of a program."""
    graph = tf.compat.v1.get_default_graph()
    while graph is not program:
        outer = {id(inner): outer for outer, inner in graph.captures}
        if getattr(tensor, "graph", None) is graph:
            if id(tensor) not in outer:
                return False
            tensor = outer[id(tensor)]
        graph = graph.outer_graph
    return getattr(tensor, "graph", None) is not program or tensor.op.type == "Placeholder"
