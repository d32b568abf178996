"""Computes each scalar of a step once.

An optimizer reads the learning rate and the number of the step for each weight, and computes the
same corrections from them each time: hundreds of operations a step, each of which takes longer to
schedule than to run.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import tensorflow as tf

from ipu_tf.runtime.execution.fusion_graph import FusionGraph, attributes_of

_PURE = frozenset(
    {"AddV2", "Cast", "Const", "Maximum", "Minimum", "Mul", "Pow", "RealDiv", "Rsqrt", "Sqrt"}
    | {"Square", "Sub"}
)


def share_scalars(graph: FusionGraph) -> None:
    """Makes all readers of equal scalars read the first of them.

    Scalars are equal if they are the same operation of equal scalars, or read a variable between
    the same writes to it.
    """
    first: dict[Hashable, tf.Tensor] = {}
    for op in graph.operations():
        if op.type == "ReadVariableOp":
            key: Hashable = _read_of(op.inputs[0])
        elif op.type in _PURE and op.outputs[0].shape.rank == 0:
            key = op.type, tuple(map(id, op.inputs)), *_attributes(op)
        else:
            for tensor in op.inputs:
                first.pop(_read_of(tensor), None)  # The op may write to the variable.
            continue
        (result,) = op.outputs
        if result.shape.rank == 0 and first.setdefault(key, result) is not result:
            graph.redirect(result, first[key])


def _read_of(variable: tf.Tensor) -> Hashable:
    return "ReadVariableOp", id(variable)


def _attributes(op: tf.Operation) -> Iterator[Hashable]:
    for name, value in sorted(attributes_of(op).items()):
        if not name.startswith("_"):
            yield name, value.SerializeToString(deterministic=True)
