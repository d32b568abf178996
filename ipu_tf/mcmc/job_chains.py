"""What the instances of a job tell each other of their chains; a single process tells nobody."""

from __future__ import annotations

import pickle
from typing import TypeVar

import numpy as np

from ipu_tf.mcmc.chain_files import Arrays
from ipu_tf.processes.calls import CollectiveCall
from ipu_tf.processes.instances import instances
from ipu_tf.processes.job import communicator

Value = TypeVar("Value")


def is_first() -> bool:
    """Returns whether this process reads and writes files, and shows the progress."""
    return instances().index == 0


def of_first(value: Value, subject: str) -> Value:
    """Returns the value of instance 0.

    Args:
        value: The value here, used at instance 0.
        subject: What it is, for messages.

    Raises:
        CollectiveError: Another instance does not come.
    """
    job = communicator()
    if job is None:
        return value
    call = CollectiveCall(kind="broadcast", name=f"mcmc.sample_chain: {subject}")
    first_value: Value = pickle.loads(
        job.broadcast(call, pickle.dumps(value) if is_first() else b"")
    )
    return first_value


def of_all(parts: Arrays, axis: int, subject: str) -> Arrays:
    """Returns arrays of all instances' replicas.

    Args:
        parts: Those of the replicas of this instance.
        axis: The axis of the replicas.
        subject: What they are, for messages.

    Raises:
        CollectiveError: Another instance does not come.
    """
    job = communicator()
    if job is None:
        return parts
    call = CollectiveCall(kind="all-gather", name=f"mcmc.sample_chain: {subject}")
    instance_parts = [pickle.loads(each) for each in job.all_gather(call, pickle.dumps(parts))]
    return [np.concatenate(each, axis) for each in zip(*instance_parts, strict=True)]
