"""The replicas of the program that is being traced on this thread.

A program that runs on several replicas is traced once, with the replica as an input. Functions of
TensorFlow ops ask here which replica they run on. Outside of a trace there is one replica.
"""

from __future__ import annotations

import collections
import contextlib
import math
from collections.abc import Iterator
from contextvars import ContextVar

import tensorflow as tf

from ipu_tf.processes.instances import instances


class MoreIpusNeeded(Exception):
    """A replica of the program needs more IPUs than its trace assumes: it is traced again.

    Args:
        ipus: IPUs that a replica takes.
    """

    def __init__(self, ipus: int) -> None:
        super().__init__(f"a replica takes {ipus} IPUs")
        self.ipus = ipus
        self.ag_pass_through = True  # AutoGraph looks for it.


class ReplicatedTrace:
    """The trace of a program, for all of its replicas.

    Args:
        device_ipus: IPUs of the device, None for a device that is not configured yet: the trace
            is for the types of its results alone.
        ipus: IPUs that a replica takes.

    Attributes:
        is_configured: Whether the device is known.
        count: Number of replicas of all instances of the job.
        local_count: Number of those of this instance.
        offset: Number of the first of these.
        ipus: IPUs that a replica takes.
        replica: The replica, an input of the program; None for a single one.
        index: int32 scalar, the number of the replica among all; None for a single one.
        sites: The names of the places of collectives so far.
    """

    def __init__(self, device_ipus: int | None, ipus: int = 1) -> None:
        job = instances()
        self.ipus = ipus
        self.is_configured = device_ipus is not None
        self.local_count = 1 if device_ipus is None else device_ipus // ipus
        self.count = self.local_count * (job.count if self.is_configured else 1)
        self.offset = self.local_count * job.index if self.is_configured else 0
        self.replica: tf.Tensor | None = None
        self.index: tf.Tensor | None = None
        self.sites: list[str] = []
        self._names: collections.Counter[str] = collections.Counter()

    def site(self, name: str) -> str:
        """Returns a name for the place of a collective, which no other place has."""
        self._names[name] += 1
        count = self._names[name]
        self.sites.append(name if count == 1 else f"{name} ({count})")
        return self.sites[-1]


_CURRENT: ContextVar[ReplicatedTrace | None] = ContextVar("ipu_tf.replicas", default=None)


def current() -> ReplicatedTrace | None:
    """Returns the trace of the program that is being traced, None outside of one."""
    return _CURRENT.get()


def num_replicas() -> int:
    """Returns the number of replicas of the program that is being traced, 1 outside of one."""
    trace = _CURRENT.get()
    return 1 if trace is None else trace.count


def is_replicated() -> bool:
    """Returns whether several replicas will run the program that is being traced."""
    trace = _CURRENT.get()
    return trace is not None and trace.replica is not None


def replica_index() -> tf.Tensor:
    """Returns the number of the replica that runs the program, from 0: an int32 scalar."""
    trace = _CURRENT.get()
    if trace is None or trace.index is None:
        return tf.constant(0, tf.int32)
    return trace.index


def local_replicas() -> int:
    """Returns the number of replicas in this process of the program that is being traced."""
    trace = _CURRENT.get()
    return 1 if trace is None else trace.local_count


def local_index() -> tf.Tensor:
    """Returns the number of the replica among those of this process: an int32 scalar."""
    trace = _CURRENT.get()
    if trace is None or trace.count == trace.local_count:
        return replica_index()
    return replica_index() - trace.offset


def require_ipus(ipus: int) -> None:
    """Makes the program that is being traced take at least `ipus` IPUs for each replica.

    A replica takes a power of two of them.

    Args:
        ipus: IPUs over which the program's shards or stages are laid.

    Raises:
        MoreIpusNeeded: The trace assumed fewer; `strategy.run` begins it once more.
    """
    trace = _CURRENT.get()
    ipus_of_power = 1 << math.ceil(math.log2(ipus))
    if trace is not None and ipus_of_power > trace.ipus:
        raise MoreIpusNeeded(ipus_of_power)


@contextlib.contextmanager
def tracing(trace: ReplicatedTrace | None) -> Iterator[None]:
    """Makes `trace` that of the functions traced inside."""
    token = _CURRENT.set(trace)
    try:
        yield
    finally:
        _CURRENT.reset(token)
