"""The op in which the replicas of a program meet, and its gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import tensorflow as tf

from ipu_tf.ops.kernels import library, replica_context

Kind = Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all"]

_DTYPES = frozenset(
    {
        tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int8, tf.uint8, tf.int32, tf.uint32,
        tf.int64, tf.bool,
    }
)  # fmt: skip


def group_size(size: int | None, *, op: str, argument: str) -> int:
    """Returns the number of consecutive replicas that take part together.

    Args:
        size: The number, or None for all replicas of the program.
        op: Name of the operation, for errors.
        argument: Name of its argument, for errors.

    Raises:
        TypeError: It is no whole number.
        ValueError: It does not divide the number of replicas.
    """
    replicas = replica_context.num_replicas()
    if size is None:
        return replicas
    if isinstance(size, bool) or not isinstance(size, int):
        raise TypeError(
            f"{op}: `{argument}` must be a whole number or None. "
            f"Received: {size!r} of type {type(size).__name__}."
        )
    trace = replica_context.current()
    is_known = trace is None or trace.is_configured
    if size < 1 or (is_known and replicas % size):
        raise ValueError(
            f"{op}: `{argument}` must divide the number of replicas, which is {replicas}. "
            f"Received: {size!r}."
        )
    _check_shared_out(size, op, argument)
    return size


def _check_shared_out(size: int, op: str, argument: str) -> None:
    """Checks that a group has all or none of the replicas of an instance, or is in one.

    Raises:
        NotImplementedError: A group has parts of instances.
    """
    local = replica_context.local_replicas()
    if max(size, local) % min(size, local):
        raise NotImplementedError(
            f"{op}: groups lie within an instance, which has {local} replicas, or consist of whole "
            f"instances. Set `{argument}` to a divisor or a multiple of {local}, or start another "
            f"number of instances. Received: {size!r}."
        )


def collective(
    x: tf.Tensor, *, kind: Kind, size: int, shape: Sequence[int], name: str, reduction: str = ""
) -> tf.Tensor:
    """Returns what a collective gives the replica that runs the program.

    Args:
        x: The value of this replica, of the same shape and type on all of them.
        kind: The collective.
        size: Number of consecutive replicas that take part together, at least 2.
        shape: Shape of the result.
        name: Name of the operation.
        reduction: How values are reduced: "add", "mean", ...; "" where they are not.

    Raises:
        TypeError: Values of this type are not exchanged.
        ValueError: The shape of `x` is not static.
    """
    trace = replica_context.current()
    if trace is not None and not trace.is_configured:
        return _unbound(x, kind, size, name)
    if trace is None or trace.replica is None:
        raise RuntimeError(f"'{name}': a collective of {size} replicas outside of their program.")
    if x.dtype not in _DTYPES:
        raise TypeError(f"{name}: replicas do not exchange values of type {x.dtype.name}.")
    if not x.shape.is_fully_defined():
        raise ValueError(
            f"{name}: the shape of a value that replicas exchange must be static. "
            f"Received: {x.shape}."
        )
    graph = tf.compat.v1.get_default_graph()
    scope = graph.get_name_scope()
    return library.load().ipu_replica_collective(
        replica=trace.replica,
        x=x,
        kind=kind,
        reduction=reduction,
        group_size=size,
        site=trace.site(f"{scope}/{name}" if scope else name),
        output_shapes=[tf.TensorShape(shape)],
        name=name,
    )


def _unbound(x: tf.Tensor, kind: Kind, size: int, name: str) -> tf.Tensor:
    """Returns a tensor of a collective's type, which fails if it runs on an unconfigured device."""
    message = f"{name}: {size} replicas meet here, but no system is configured."
    failure = tf.debugging.Assert(False, [f"{message} Call configure_ipu_system."])
    with tf.control_dependencies([failure]):
        return _UNBOUND[kind](tf.identity(x), size)


_UNBOUND: Mapping[Kind, Callable[[tf.Tensor, int], tf.Tensor]] = MappingProxyType(
    {
        "all-reduce": lambda x, _: x,
        "all-gather": lambda x, size: tf.stack([x] * size),
        "reduce-scatter": lambda x, size: tf.split(x, size)[0],
        "all-to-all": lambda x, _: x,
    }
)


def _all_reduce_gradient(op: tf.Operation, gradient: tf.Tensor) -> tf.Tensor:
    return _like(op, gradient, "all-reduce", gradient.shape, op.get_attr("reduction").decode())


def _all_gather_gradient(op: tf.Operation, gradient: tf.Tensor) -> tf.Tensor:
    """Returns the sum of what all replicas pass back for this replica's part."""
    part = [1, *gradient.shape[1:]]
    mine = _like(op, gradient, "reduce-scatter", part, "add")
    return tf.reshape(mine, op.inputs[1].shape)


def _reduce_scatter_gradient(op: tf.Operation, gradient: tf.Tensor) -> tf.Tensor:
    """Returns all parts of the gradient: every replica's value goes into each part."""
    size = op.get_attr("group_size")
    parts = _like(op, gradient, "all-gather", [size, *gradient.shape], "")
    value = tf.reshape(parts, op.inputs[1].shape)
    return value / size if op.get_attr("reduction") == b"mean" else value


def _all_to_all_gradient(op: tf.Operation, gradient: tf.Tensor) -> tf.Tensor:
    return _like(op, gradient, "all-to-all", gradient.shape, "")


_GRADIENTS: Mapping[str, Callable[[tf.Operation, tf.Tensor], tf.Tensor]] = MappingProxyType(
    {
        "all-reduce": _all_reduce_gradient,
        "all-gather": _all_gather_gradient,
        "reduce-scatter": _reduce_scatter_gradient,
        "all-to-all": _all_to_all_gradient,
    }
)


@tf.RegisterGradient("IpuReplicaCollective")
def _gradient(op: tf.Operation, gradient: tf.Tensor) -> list[Any]:
    """Returns the gradients of a collective: a collective of all replicas again."""
    reduction = op.get_attr("reduction").decode()
    if reduction not in ("", "add", "mean"):
        raise LookupError(
            f"'{op.get_attr('site').decode()}' has no gradient: it reduces values by '{reduction}'."
        )
    return [None, _GRADIENTS[op.get_attr("kind").decode()](op, gradient)]


def _like(
    op: tf.Operation, x: tf.Tensor, kind: Kind, shape: Sequence[int], reduction: str
) -> tf.Tensor:
    """Returns a collective of the replicas that another one joins, named after it."""
    place = op.get_attr("site").decode().rpartition("/")[2].partition(" ")[0]
    return collective(
        x,
        kind=kind,
        size=op.get_attr("group_size"),
        shape=list(shape),
        name=f"{place}_gradient",
        reduction=reduction,
    )
