"""The IPUs that `scopes.ipu_shard` gives to operations, read and spread in a graph."""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf

from ipu_tf.internals.graphs import set_op_attribute
from ipu_tf.runtime.tracing.op_attributes import SHARD

_COLOCATION = b"loc:@"


def has_attr(o: tf.Operation, attr_name: str) -> bool:
    """Returns whether an operation has an attribute of this name."""
    try:
        o.get_attr(attr_name)
    except ValueError:
        return False
    return True


def get_sharding(op: tf.Operation) -> int | None:
    """Returns the IPU of an operation, None for one outside of every shard."""
    return int(op.get_attr(SHARD)) if has_attr(op, SHARD) else None


def get_shard_from_colocation(op: tf.Operation) -> int | None:
    """Returns the IPU of the operations that an operation is colocated with, None for none."""
    for group in op.get_attr("_class") if has_attr(op, "_class") else ():
        name = bytes(group).removeprefix(_COLOCATION).decode()
        if name == op.name:
            continue
        try:
            ops = get_sharding(op.graph.get_operation_by_name(name))
        except KeyError:  # It is in another graph.
            continue
        if ops is not None:
            return ops
    return None


def dependencies(roots: Iterable[tf.Tensor]) -> list[tf.Operation]:
    """Returns operations and all those that they depend on, each after those that it reads.

    Args:
        roots: Operations or tensors.
    """
    ops: dict[str, tf.Operation] = {}
    worklist = [(getattr(root, "op", root), False) for root in roots]
    while worklist:
        op, is_done = worklist.pop()
        if is_done:
            ops.setdefault(op.name, op)
        elif op.name not in ops:
            worklist.append((op, True))
            worklist += [(tensor.op, False) for tensor in op.inputs]
            worklist += [(control, False) for control in op.control_inputs]
    return list(ops.values())


def propagate_sharding(g: tf.Graph) -> None:
    """Gives operations without an IPU that of their colocation, or of the first that they read.

    Args:
        g: The graph.
    """
    for op in g.get_operations():
        if get_sharding(op) is not None:
            continue
        known = (get_sharding(tensor.op) for tensor in op.inputs)
        ipu = get_shard_from_colocation(op)
        ipu = next((one for one in known if one is not None), None) if ipu is None else ipu
        if ipu is not None:
            set_op_attribute(op, SHARD, tf.compat.v1.AttrValue(i=ipu))


def enable_sharded_gradient_tape() -> None:
    """Does nothing: the gradients of tapes are always on the IPUs of their forward operations."""
