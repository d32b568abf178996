"""Values of the instances of a job, gathered on the host."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ipu_tf.processes.calls import CollectiveCall
from ipu_tf.processes.job import communicator


def gathered(
    arrays: Sequence[np.ndarray], *, name: str, members: range | None = None
) -> list[np.ndarray]:
    """Returns the arrays of instances, one after the other along their first axes.

    Args:
        arrays: Arrays of the same shapes and types in all of them.
        name: What is gathered, for errors.
        members: The instances that take part, this one among them; None for all.
    """
    job = communicator()
    if job is None:
        return list(arrays)
    call = CollectiveCall(
        kind="all-gather",
        name=name,
        shape=", ".join(f"{array.dtype} {list(array.shape)}" for array in arrays),
        replicas="" if members is None else f"instances {members[0]} to {members[-1]}",
    )
    texts = job.all_gather(call, b"".join(array.tobytes() for array in arrays), members=members)
    values, start = [], 0
    for array in arrays:
        parts = [text[start : start + array.nbytes] for text in texts]
        start += array.nbytes
        values.append(
            np.concatenate([np.frombuffer(p, array.dtype).reshape(array.shape) for p in parts])
        )
    return values


def first_difference(value: object, *, name: str) -> tuple[str, int, str] | None:
    """Returns the value of instance 0, and the first instance with another and its value.

    Args:
        value: That of this instance; its text is compared.
        name: What is compared, for errors.

    Returns:
        None if the values of all instances are equal, or this is the only one.
    """
    job = communicator()
    if job is None:
        return None
    call = CollectiveCall(kind="all-gather", name=name)
    texts = [text.decode() for text in job.all_gather(call, str(value).encode())]
    for index, text in enumerate(texts):
        if text != texts[0]:
            return texts[0], index, text
    return None
