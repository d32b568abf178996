"""The processes of a job as messages of MPI reach them: meetings, values, signs of life."""

from __future__ import annotations

import collections
import ctypes
import dataclasses
import os
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ipu_tf.processes.calls import CollectiveCall, CollectiveError, check_equal
from ipu_tf.processes.limits import HEARTBEAT, WAIT, Limits

Buffers: TypeAlias = bytes | bytearray | np.ndarray | list[np.ndarray]
"""Memory that is sent to a process or received from it; a list goes piece by piece."""

_CONTROL, _DATA = 1, 2
"""Tags of messages."""

_CALL, _ALIVE, _END, _LEAVE = b"C", b"A", b"E", b"L"
"""Kinds of control messages, their first byte: a call, a sign of life, the end of all calls and its
reason, and the end of the process."""

_POLLING_SECONDS = 200e-6
"""How long a wait only yields its core between looks: even the shortest sleep takes as long as an
exchange of small values. On a busy host, who has slept gets a core before who has yielded."""

_SLEEP_SECONDS = 50e-6
_LONGEST_SLEEP_SECONDS = 1e-3
_SLEEP_GROWTH = 1.05
"""Of sleeps that wait for a call. Values move piece by piece, and only while both sides look."""


class Peers:
    """The processes of a job, as the one thread sees them that calls MPI.

    Args:
        limits: How long processes wait for each other.

    Attributes:
        rank: The number of this process.
        size: The number of processes.

    Raises:
        CollectiveError: MPI does not start.
        ImportError: mpi4py is not installed.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._mpi = _started_mpi()
        self._world = self._mpi.COMM_WORLD
        self.rank, self.size = self._world.Get_rank(), self._world.Get_size()
        self._peers = [peer for peer in range(self.size) if peer != self.rank]
        self._heard = dict.fromkeys(self._peers, time.monotonic())
        self._calls: dict[int, collections.deque[tuple[CollectiveCall, bytes]]] = {
            peer: collections.deque() for peer in self._peers
        }
        self._ends: dict[int, str] = {}
        self._leavers: set[int] = set()
        self._orders: collections.Counter[tuple[int, ...]] = collections.Counter()
        self._sends: list[tuple[Any, Any]] = []
        self._last_sign, self._has_told_end = 0.0, False

    def meet(self, call: CollectiveCall, members: Sequence[int], own: bytes) -> list[bytes]:
        """Exchanges the descriptions of a call, and bytes beside them.

        Returns:
            The bytes of the members, in their order.
        """
        order = self._orders[tuple(members)]
        self._orders[tuple(members)] += 1
        names = f"instances {members[0]} to {members[-1]}"
        call = dataclasses.replace(call, order=order, replicas=call.replicas or names)
        description = call.packed()
        peers = [peer for peer in members if peer != self.rank]
        self._tell(_CALL + struct.pack("<q", len(description)) + description + own, peers)
        self._wait(lambda: self._first_absent(peers), call)
        texts = {peer: self._calls[peer].popleft() for peer in peers}
        texts[self.rank] = (call, own)
        check_equal({peer: one for peer, (one, _) in texts.items()})
        return [texts[peer][1] for peer in members]

    def exchange(self, sends: Mapping[int, Buffers], receives: Mapping[int, Buffers]) -> None:
        """Sends buffers to processes, or lists of them, and receives others."""
        requests = [
            (peer, self._world.Irecv([buffer, self._mpi.BYTE], peer, _DATA))
            for peer, buffers in receives.items()
            for buffer in (buffers if isinstance(buffers, list) else [buffers])
        ]
        requests += [
            (peer, self._world.Isend([buffer, self._mpi.BYTE], peer, _DATA))
            for peer, buffers in sends.items()
            for buffer in (buffers if isinstance(buffers, list) else [buffers])
        ]

        def first_open() -> int | None:
            while requests and requests[-1][1].Test():
                requests.pop()
            return requests[-1][0] if requests else None

        self._wait(first_open, None)

    def listen(self) -> None:
        """Takes all control messages that have come, and gives a sign of life where it is time."""
        self._sends = [one for one in self._sends if not one[0].Test()]
        now = time.monotonic()
        if not self._has_told_end and now - self._last_sign > self._limits.heartbeat_seconds / 4:
            self._last_sign = now
            self._tell(_ALIVE, [peer for peer in self._peers if peer not in self._ends])
        status = self._mpi.Status()
        while self._world.Iprobe(self._mpi.ANY_SOURCE, _CONTROL, status):
            peer, message = status.Get_source(), bytearray(status.Get_count(self._mpi.BYTE))
            self._world.Recv([message, self._mpi.BYTE], peer, _CONTROL)
            self._heard[peer] = now
            if message[:1] == _CALL:
                (length,) = struct.unpack_from("<q", message, 1)
                packed, own = bytes(message[9 : 9 + length]), bytes(message[9 + length :])
                self._calls[peer].append((CollectiveCall.of(packed), own))
            elif message[:1] == _END:
                self._ends.setdefault(peer, message[1:].decode())
            elif message[:1] == _LEAVE:
                self._leavers.add(peer)

    def end(self, reason: str) -> None:
        """Tells the others that this process calls nothing more, and the failure if it is one."""
        if not self._has_told_end:
            self._tell(_END + reason.encode())
            self._has_told_end = True

    def leave(self, reason: str) -> None:
        """Ends MPI when the others end, too; if this process has failed, ends them soon after."""
        self.end(reason)
        self._tell(_LEAVE)
        start = time.monotonic()
        while len(self._leavers) < len(self._peers) or self._sends:
            is_late = time.monotonic() - start > self._limits.farewell_seconds
            if is_late and (reason or any(self._ends.values())):
                break
            self.listen()
            time.sleep(_LONGEST_SLEEP_SECONDS)
        if reason:
            self._world.Abort(1)  # MPI's own end would wait for processes that never come.
        if not any(self._ends.values()):
            self._mpi.Finalize()

    def _tell(self, message: bytes, to: Sequence[int] | None = None) -> None:
        """Sends a control message."""
        for peer in self._peers if to is None else to:
            self._sends.append(
                (self._world.Isend([message, self._mpi.BYTE], peer, _CONTROL), message)
            )

    def _first_absent(self, peers: Sequence[int]) -> int | None:
        return next((peer for peer in peers if not self._calls[peer]), None)

    def _wait(self, missing: Callable[[], int | None], call: CollectiveCall | None) -> None:
        """Waits until no process is missing.

        Raises:
            CollectiveError: A process has ended, gives no sign of life, or does not come.
        """
        start, sleep = time.monotonic(), _SLEEP_SECONDS
        polling_end = start + _POLLING_SECONDS
        self.listen()
        self._check_failures(call)
        while (peer := missing()) is not None:
            self._check_failures(call)
            self._check(peer, start, call)
            if time.monotonic() < polling_end:
                os.sched_yield()
            else:
                time.sleep(sleep)
                if call is not None:
                    sleep = min(_SLEEP_GROWTH * sleep, _LONGEST_SLEEP_SECONDS)
            self.listen()

    def _check_failures(self, call: CollectiveCall | None) -> None:
        for peer, reason in self._ends.items():
            if reason:
                raise self._stopped(call, f"instance {peer} failed: {reason}")

    def _check(self, peer: int, start: float, call: CollectiveCall | None) -> None:
        """Checks that there is hope for a process that is missing."""
        if peer in self._ends:
            raise self._stopped(
                call,
                f"instance {peer} has ended, and calls it no more. All instances have to call the "
                "same collectives equally often.",
            )
        now = time.monotonic()
        if now - max(self._heard[peer], start) > self._limits.heartbeat_seconds:
            raise self._stopped(
                call,
                f"instance {peer} has given no sign of life for {self._limits.heartbeat_seconds:g} "
                f"s: it is stopped, or its host is gone. {HEARTBEAT} sets the limit.",
            )
        if now - start > self._limits.wait_seconds:
            raise self._stopped(
                call,
                f"instance {peer} runs, but has not come for {self._limits.wait_seconds:g} s. All "
                f"instances have to call it; {WAIT} sets the limit, for scripts in which an "
                "instance works that long alone.",
            )

    def _stopped(self, call: CollectiveCall | None, why: str) -> CollectiveError:
        where = "the values of a collective" if call is None else str(call)
        return CollectiveError(f"Instance {self.rank} waits at {where}; {why}")


def _started_mpi() -> Any:
    """Returns mpi4py's module of MPI, which has started."""
    import mpi4py

    mpi4py.rc.initialize = False
    mpi4py.rc.finalize = False
    from mpi4py import MPI

    if MPI.Is_initialized():
        return MPI
    # mpi4py's function keeps other threads of Python from running while it waits for processes.
    start = getattr(ctypes.CDLL(MPI.__file__), "MPI_Init_thread", None)
    if start is None:
        MPI.Init_thread(MPI.THREAD_SERIALIZED)
        return MPI
    provided = ctypes.c_int()
    code = start(None, None, ctypes.c_int(MPI.THREAD_SERIALIZED), ctypes.byref(provided))
    if code:
        raise CollectiveError(f"MPI did not start: its error code is {code}.")
    return MPI
