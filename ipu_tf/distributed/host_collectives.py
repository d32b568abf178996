"""Collectives of the values that the instances of a job have on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_tf import scopes
from ipu_tf.internals.tensorflow import TensorProto
from ipu_tf.processes.calls import CollectiveCall
from ipu_tf.processes.communicator import Communicator
from ipu_tf.processes.job import communicator

_HALVES = (tf.float16, tf.bfloat16)


def allgather(value: tf.Tensor, tensor_name: str | None = None) -> tf.Tensor:
    """Returns the values of all instances, one after the other along the first axis.

    Args:
        value: A tensor of the host, of numbers. Its first axis may differ between instances. The
            values of several instances with no axis become a vector.
        tensor_name: Name of the operation.

    Raises:
        CollectiveError: The instances do not meet.
        RuntimeError: It is called in a program of the IPU.
        TypeError: `value` is no tensor of numbers.
    """
    value, job = _of_host(value, "allgather")
    if job is None:
        return tf.identity(value, name=tensor_name)
    _check_numbers(value.dtype, "allgather")
    instances_of_job = job

    def gather(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        rows = np.ascontiguousarray(np.atleast_1d(array))
        call = CollectiveCall(
            kind="allgather",
            name=tensor_name or "allgather",
            dtype=value.dtype.name,
            shape=str(["?", *rows.shape[1:]]),
        )
        texts = instances_of_job.all_gather(call, rows.tobytes())
        return np.concatenate(
            [np.frombuffer(text, rows.dtype).reshape(-1, *rows.shape[1:]) for text in texts]
        )

    return _call_on_host(
        gather, value, [None, *value.shape[1:]] if value.shape.rank else [job.size]
    )


def allreduce(
    value: tf.Tensor, reduce_op: tf.distribute.ReduceOp | str, tensor_name: str | None = None
) -> tf.Tensor:
    """Returns the sum or the mean of the values of all instances, the same bits on all of them.

    Args:
        value: A tensor of the host, of numbers and of the same shape on all instances.
        reduce_op: A `tf.distribute.ReduceOp`, or its name.
        tensor_name: Name of the operation.

    Raises:
        CollectiveError: The instances do not meet.
        RuntimeError: It is called in a program of the IPU.
        TypeError: `value` is no tensor of numbers.
        ValueError: The reduction is another.
    """
    name = reduce_op.name if isinstance(reduce_op, tf.distribute.ReduceOp) else reduce_op
    if name not in ("SUM", "MEAN"):
        raise ValueError(
            "allreduce: `reduce_op` must be tf.distribute.ReduceOp.SUM or MEAN. "
            f"Received: {reduce_op!r}."
        )
    value, job = _of_host(value, "allreduce")
    if job is None:
        return tf.identity(value, name=tensor_name)
    _check_numbers(value.dtype, "allreduce")
    instances_of_job, half = job, value.dtype in _HALVES

    def reduce(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        terms = array.astype(np.float32) if half else array
        call = CollectiveCall(
            kind="allreduce",
            name=tensor_name or "allreduce",
            dtype=value.dtype.name,
            shape=str(list(array.shape)),
            reduction="add",
        )
        total = instances_of_job.all_reduce(call, terms.reshape(1, -1), first=instances_of_job.rank)
        mean = total / instances_of_job.size if name == "MEAN" else total
        return mean.astype(array.dtype).reshape(array.shape)

    return _call_on_host(reduce, value, value.shape)


def broadcast(value: tf.Tensor, root_rank: int = 0, tensor_name: str | None = None) -> tf.Tensor:
    """Returns the value of one instance.

    Args:
        value: A tensor of the host, of the same shape on all instances.
        root_rank: The number of the instance.
        tensor_name: Name of the operation.

    Raises:
        CollectiveError: The instances do not meet.
        RuntimeError: It is called in a program of the IPU.
        ValueError: There is no instance of that number.
    """
    value, job = _of_host(value, "broadcast")
    count = 1 if job is None else job.size
    if isinstance(root_rank, bool) or not 0 <= root_rank < count:
        raise ValueError(
            f"broadcast: `root_rank` must be the number of one of {count} instances, from 0 to "
            f"{count - 1}. Received: root_rank={root_rank!r}."
        )
    if job is None:
        return tf.identity(value, name=tensor_name)
    return sent(value, job, root_rank, tensor_name or "broadcast")


def sent(value: tf.Tensor, job: Communicator, root: int, name: str) -> tf.Tensor:
    """Returns the value of one instance, also in a program, which the host interrupts for it.

    Args:
        value: A tensor of the same shape on all instances.
        job: The instances.
        root: The number of the instance.
        name: What is sent, for errors.
    """

    def send(array: np.ndarray[Any, Any]) -> Any:
        # Sessions call this where tensors have no values.
        message = tf.make_tensor_proto(array, value.dtype).SerializeToString()
        call = CollectiveCall(
            kind="broadcast",
            name=name,
            dtype=value.dtype.name,
            shape=str(list(np.shape(array))),
        )
        proto = TensorProto.FromString(job.broadcast(call, message, root))
        return tf.make_ndarray(proto)

    return _call_on_host(send, value, value.shape)


def _of_host(value: Any, name: str) -> tuple[tf.Tensor, Communicator | None]:
    """Returns a value of the host as a tensor, and the job."""
    if scopes.runs_on_ipu():
        raise RuntimeError(
            f"{name} runs on the host, between processes. Call it outside of `strategy.run` and "
            "of `ipu_scope`, or in `outside_compilation_scope`."
        )
    return tf.convert_to_tensor(value), communicator()


def _check_numbers(dtype: tf.DType, name: str) -> None:
    if not (dtype.is_floating or dtype.is_integer):
        raise TypeError(
            f"{name}: instances combine numbers. Received: a tensor of type {dtype.name}. Cast it, "
            "or use broadcast."
        )


def _call_on_host(function: Callable[[Any], Any], value: tf.Tensor, shape: Any) -> tf.Tensor:
    """Returns what a function of a NumPy array returns; in a graph, whenever it runs."""
    if not tf.is_symbolic_tensor(value):
        return tf.constant(function(value.numpy()), value.dtype)
    result = tf.numpy_function(function, [value], value.dtype)
    return tf.ensure_shape(result, shape)
