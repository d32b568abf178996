"""Programs that the host runs once for several replicas, as in Keras' loop: whose values go out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass

import tensorflow as tf

from ipu_tf import replica_context

_TAKING_TURNS = -1


@dataclass(frozen=True, slots=True)
class _Shared:
    replicas: tuple[int, ...]
    count: int


_SHARED: ContextVar[_Shared | None] = ContextVar("ipu_tf.shared_program", default=None)


def taking_turns(count: int) -> contextlib.AbstractContextManager[None]:
    """Marks enclosed traces as those of a program that `count` replicas run one after the other."""
    return _sharing(_Shared((_TAKING_TURNS,), count))


def of_all_replicas(count: int) -> contextlib.AbstractContextManager[None]:
    """Marks enclosed traces as those of a program that runs once, for all replicas."""
    return _sharing(_Shared(tuple(range(count)), count))


def enqueuing() -> tuple[tuple[int | tf.Tensor, ...], int]:
    """Returns for which replicas the traced program enqueues, and the number of all replicas."""
    shared = _SHARED.get()
    if shared is not None:
        return shared.replicas, shared.count
    return (replica_context.replica_index(),), replica_context.num_replicas()


@contextlib.contextmanager
def _sharing(shared: _Shared) -> Iterator[None]:
    token = _SHARED.set(shared)
    try:
        yield
    finally:
        _SHARED.reset(token)
