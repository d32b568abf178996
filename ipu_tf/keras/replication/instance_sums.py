"""Sums over the replicas of all instances of a job, on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_tf.processes.calls import CollectiveCall
from ipu_tf.processes.job import communicator
from ipu_tf.processes.reduction_tree import pairs


def tree_sum(values: tf.Tensor) -> tf.Tensor:
    """Returns the sum along the first axis by a balanced tree: 0 and 1, 2 and 3; then 0 and 2.

    Neighbours are added at once. TensorFlow would make one sum of separate additions, in order.

    Args:
        values: A tensor of any type and shape, whose first axis is that of the replicas.
    """
    while (count := values.shape[0]) > 1:
        even = count - count % 2
        sums = values[0:even:2] + values[1:even:2]
        values = tf.concat([sums, values[even:]], 0) if count % 2 else sums
    return values[0]


def over_instances(
    values: Sequence[tf.Tensor],
    *,
    first: int,
    count: int,
    group: int,
    name: str,
    program: str = "",
) -> list[tf.Tensor]:
    """Returns the sums over all replicas, the same bits on all instances.

    Args:
        values: float32 tensors, whose first axis is that of the replicas here. They are exchanged
            as one.
        first: The number of the first replica of this instance.
        count: Replicas of this instance.
        group: Replicas of all instances.
        name: What is summed, for errors.
        program: The fingerprint of the program that made the values.
    """
    shapes = [value.shape[1:] for value in values]

    def exchange(*arrays: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        job = communicator()
        if job is None:
            raise RuntimeError("This process is the only one of its job.")
        packed = np.concatenate([array.reshape(len(array), -1) for array in arrays], axis=1)
        nodes = dict(enumerate(packed, first))
        for left, right in pairs(first, count, group):
            nodes[left] += nodes.pop(right)
        packed = np.stack(list(nodes.values())) if count > 1 else packed
        call = CollectiveCall(
            kind="all-reduce",
            name=name,
            dtype="float32",
            shape=", ".join(str(list(shape)) for shape in shapes),
            reduction="add",
            program=program,
        )
        total = job.all_reduce(call, packed, first=first, count=count, group=group)
        parts = np.split(total, np.cumsum([shape.num_elements() for shape in shapes])[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    found = tf.numpy_function(exchange, values, [tf.float32] * len(values))
    return [tf.ensure_shape(one, shape) for one, shape in zip(found, shapes, strict=True)]


def means_over_instances(logs: Any, *, name: str) -> Any:
    """Returns the means over all instances of a dict of scalars or vectors; alone, the logs.

    Args:
        logs: NumPy arrays or numbers by their names.
        name: What is averaged, for errors.
    """
    job = communicator()
    if job is None or not logs:
        return logs
    rows = {key: np.asarray(value) for key, value in logs.items()}
    packed = np.concatenate([row.reshape(-1) for row in rows.values()]).astype(np.float64)
    shape = ", ".join(f"{key} {list(row.shape)}" for key, row in rows.items())
    call = CollectiveCall(
        kind="all-reduce", name=name, dtype="float64", shape=shape, reduction="mean"
    )
    means = job.all_reduce(call, packed[np.newaxis], first=job.rank) / job.size
    parts = np.split(means, np.cumsum([row.size for row in rows.values()])[:-1])
    return {
        key: part.reshape(row.shape).astype(row.dtype)
        for (key, row), part in zip(rows.items(), parts, strict=True)
    }


def check_equal_steps(steps: int | None, *, name: str) -> None:
    """Checks that all instances have data for equally many steps.

    Args:
        steps: Steps of an epoch of this instance, None if its data do not end.
        name: What takes the steps, for errors.

    Raises:
        ValueError: An instance has another number.
    """
    job = communicator()
    if job is None:
        return
    call = CollectiveCall(kind="all-gather", name=f"steps of {name}")
    found = [text.decode() for text in job.all_gather(call, str(steps).encode())]
    other = next((index for index, text in enumerate(found) if text != found[0]), None)
    if other is not None:
        raise ValueError(
            f"{name}: the shards of the data differ in length: instance 0 has {found[0]} steps an "
            f"epoch, instance {other} has {found[other]}. Cut them to the same number of batches "
            "with dataset.take, or set steps_per_epoch."
        )
