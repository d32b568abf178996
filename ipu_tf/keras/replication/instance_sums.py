"""Sums over the replicas of all instances of a job, on the host."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from ipu_tf.keras.replication.instance_values import first_difference, gathered
from ipu_tf.processes.calls import CollectiveCall
from ipu_tf.processes.job import communicator
from ipu_tf.processes.reduction_tree import pairs, reduced


def over_instances(
    values: Sequence[tf.Tensor],
    *,
    first: int,
    count: int,
    group: int,
    name: str,
    program: str = "",
    span: int = 1,
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
        span: Instances that have the same values, one after the other.
    """
    shapes = [value.shape[1:] for value in values]

    def exchange(*arrays: np.ndarray) -> list[np.ndarray]:
        job = communicator()
        if job is None:
            raise RuntimeError("This process is the only one of its job.")
        rows_of_replicas = np.concatenate(
            [array.reshape(len(array), -1) for array in arrays], axis=1
        )
        nodes = dict(enumerate(rows_of_replicas, first))
        for left, right in pairs(first, count, group):
            nodes[left] += nodes.pop(right)
        rows_of_replicas = np.stack(list(nodes.values())) if count > 1 else rows_of_replicas
        call = CollectiveCall(
            kind="all-reduce",
            name=name,
            dtype="float32",
            shape=", ".join(str(list(shape)) for shape in shapes),
            reduction="add",
            program=program,
        )
        if span == 1:
            total = job.all_reduce(call, rows_of_replicas, first=first, count=count, group=group)
        else:
            (rows,) = gathered([rows_of_replicas], name=name)
            total = reduced(dict(enumerate(rows[::span])), group, np.add)
        parts = np.split(total, np.cumsum([shape.num_elements() for shape in shapes])[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    sums = tf.numpy_function(exchange, values, [tf.float32] * len(values))
    return [tf.ensure_shape(one, shape) for one, shape in zip(sums, shapes, strict=True)]


def check_equal_steps(steps: int | None, *, name: str) -> None:
    """Checks that all instances have data for equally many steps.

    Args:
        steps: Steps of an epoch of this instance, None if its data do not end.
        name: What takes the steps, for errors.

    Raises:
        ValueError: An instance has another number.
    """
    different = first_difference(steps, name=f"steps of {name}")
    if different is not None:
        first, other, others = different
        raise ValueError(
            f"{name}: the shards of the data differ in length: instance 0 has {first} steps an "
            f"epoch, instance {other} has {others}. Cut them to the same number of batches with "
            "dataset.take, or set steps_per_epoch."
        )
