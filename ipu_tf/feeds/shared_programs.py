"""Programs that the host runs once for several replicas, as in Keras' loop: whose values go out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

import tensorflow as tf

from ipu_tf.ops.kernels import replica_context

_TAKING_TURNS = -1

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class _Replicas:
    """The replicas that a program enqueues for, their count, and those that run as one batch."""

    replicas: tuple[int, ...]
    count: int
    group: int = 1


_SHARED: ContextVar[_Replicas | None] = ContextVar("ipu_tf.shared_program", default=None)
_MEMBER: ContextVar[int | None] = ContextVar("ipu_tf.member", default=None)


def taking_turns(count: int, group: int = 1) -> contextlib.AbstractContextManager[None]:
    """Marks enclosed traces as those of a program that `count` replicas run one after the other.

    Args:
        count: Number of replicas.
        group: Number of replicas that run as one batch.
    """
    return _set(_SHARED, _Replicas((_TAKING_TURNS,), count, group))


def of_all_replicas(count: int) -> contextlib.AbstractContextManager[None]:
    """Marks enclosed traces as those of a program that runs once, for all replicas."""
    return _set(_SHARED, _Replicas(tuple(range(count)), count))


def of_member(number: int) -> contextlib.AbstractContextManager[None]:
    """Marks enclosed operations as those of one replica of a group that runs as one batch."""
    return _set(_MEMBER, number)


def are_shared() -> bool:
    """Returns whether a program is traced that the host runs for the replicas of a model."""
    return _SHARED.get() is not None


def member() -> int | None:
    """Returns the replica of a group whose operations are traced, None outside of `of_member`."""
    return _MEMBER.get()


def enqueuing() -> tuple[tuple[int | tf.Tensor, ...], int]:
    """Returns for which replicas the traced program enqueues, and the number of all replicas.

    Raises:
        ValueError: Several replicas run as one batch: their values are not apart.
    """
    shared = _SHARED.get()
    if shared is None:
        return (replica_context.local_index(),), replica_context.local_replicas()
    if shared.group > 1 and _MEMBER.get() is None:
        raise ValueError(
            "An IPUOutfeedQueue in a layer needs the values of each replica. Received: "
            f"distributed_batch_norm_replica_group_size={shared.group}, whose replicas run as one "
            "batch. Enqueue in the loss or in a metric, which are computed for each replica, or "
            "set the size to 1."
        )
    return shared.replicas, shared.count


@contextlib.contextmanager
def _set(variable: ContextVar[Value], value: Value) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
