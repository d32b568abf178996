"""Collectives between the processes of a job, over MPI.

One thread of each process calls MPI. It first exchanges what the processes say about their calls,
so that calls that differ are found before any value is used. Small values travel with that; large
ones are summed in parts, one a process. Signs of life tell a process that computes from one that
is gone.
"""

from __future__ import annotations

import collections
import ctypes
import dataclasses
import os
import queue
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np

from ipu_tf.processes.calls import CollectiveCall, CollectiveError, check_equal
from ipu_tf.processes.limits import HEARTBEAT, WAIT, Limits
from ipu_tf.processes.reduction_tree import nodes, reduced

Array = np.ndarray[Any, Any]

INLINE_BYTES = 32768
"""Values of at most this size travel with their description."""

_CONTROL, _DATA = 1, 2
"""Tags of messages."""

_CALL, _ALIVE, _END, _LEFT = b"C", b"A", b"E", b"L"
"""Kinds of control messages, their first byte: a call, a sign of life, the end of all calls and its
reason, and the end of the process."""

_POLLS_BEFORE_SLEEP = 200
_SLEEP_SECONDS = 50e-6
_LONGEST_SLEEP_SECONDS = 1e-3

_JOINS: Mapping[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "mul": np.multiply,
    "min": lambda a, b: np.where(b < a, b, a),
    "max": lambda a, b: np.where(a < b, b, a),
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
}
"""How two values are reduced; the same as in `ops/tf/replica_combine.cc`."""


class Communicator:
    """The processes of a job, as this one sees them.

    Its methods may be called on any thread; each returns when all processes that take part have
    called it, and all of them have to call the same in the same order.

    Args:
        limits: How long processes wait for each other.

    Attributes:
        rank: The number of this process.
        size: The number of processes.

    Raises:
        CollectiveError: Not all processes start MPI within the limit.
        ImportError: mpi4py is not installed.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits.of()
        self._process = os.getpid()
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]
        self._jobs = queue.SimpleQueue()
        self._error: str | None = None
        self._reason, self._is_closed = "", False
        started: Future[tuple[int, int]] = Future()
        self._thread = threading.Thread(
            target=self._serve, args=(started,), name="ipu_tf communicator", daemon=True
        )
        self._thread.start()
        try:
            self.rank, self.size = started.result(self._limits.wait_seconds)
        except TimeoutError:
            raise CollectiveError(
                f"Not all instances of the job have started MPI within "
                f"{self._limits.wait_seconds:g} s: one of them has ended, or does not get to it. "
                f"See the output of the others; {WAIT} sets the limit."
            ) from None

    def all_reduce(
        self,
        call: CollectiveCall,
        values: Array,
        *,
        first: int,
        count: int = 1,
        group: int = 0,
        join: str = "add",
    ) -> Array:
        """Returns the reduced values of a group of replicas.

        Args:
            call: What is reduced.
            values: Those of the tree's nodes among the replicas of this process, one a row.
            first: The number of this process's first replica in the group.
            count: Replicas of this process, as many as of each other.
            group: Replicas of the group, a multiple of `count`; 0 for all.
            join: How two values are reduced, a key of the table of joins.
        """
        group = group or self.size * count
        members = self.members(first, count, group)
        pairwise = _JOINS[join]

        # Rows are equally long everywhere; how many there are may differ.
        is_small = values[:1].nbytes <= INLINE_BYTES

        def run() -> Array:
            texts = self._meet(call, members, values.tobytes() if is_small else b"")
            if is_small:
                rows = [
                    list(np.frombuffer(text, values.dtype).reshape(len(numbers), -1))
                    for text, numbers in zip(
                        texts, _nodes_of(len(members), count, group), strict=True
                    )
                ]
                return _joined(rows, members, count, group, pairwise)
            part = self._reduced_part(values, members, count, group, pairwise)
            return self._gather_parts(part, values, members)

        return self._result(run)

    def all_gather(
        self, call: CollectiveCall, values: bytes, *, members: Sequence[int] | None = None
    ) -> list[bytes]:
        """Returns the bytes of all processes, in their order; they may differ in length.

        Args:
            call: What is gathered.
            values: Those of this process.
            members: The processes that take part, this one among them; None for all.
        """
        among = tuple(range(self.size) if members is None else members)

        def run() -> list[bytes]:
            heads = self._meet(call, among, _head(values))
            return self._gather(heads, values, among)

        return self._result(run)

    def broadcast(self, call: CollectiveCall, values: bytes, root: int = 0) -> bytes:
        """Returns the bytes of one process.

        Args:
            call: What is broadcast.
            values: Those of this process, used if it is the root.
            root: The number of the process whose bytes all get.
        """
        among = tuple(range(self.size))

        def run() -> bytes:
            is_root = self._rank == root
            heads = self._meet(call, among, _head(values) if is_root else b"")
            if heads[root][:1] == b"\1":
                return heads[root][1:]
            if is_root:
                self._exchange({rank: values for rank in among if rank != root}, {})
                return values
            buffer = bytearray(struct.unpack("<bq", heads[root])[1])
            self._exchange({}, {root: buffer})
            return bytes(buffer)

        return self._result(run)

    def barrier(self, name: str = "barrier") -> None:
        """Waits until all processes have called it."""
        self.all_gather(CollectiveCall(kind="barrier", name=name), b"")

    def members(self, first: int, count: int, group: int) -> tuple[int, ...]:
        """Returns the processes of a group of replicas; see `all_reduce`."""
        start = self.rank - first // count
        return tuple(range(start, start + group // count))

    def close(self, reason: str = "") -> None:
        """Ends the communication of this process: tells the others, and lets MPI end.

        Args:
            reason: The failure by which this process ends, "" if it ends as it should.
        """
        if os.getpid() != self._process or not self._thread.is_alive():
            return
        self._reason = reason or self._error or ""
        self._is_closed = True
        self._jobs.put(None)
        self._thread.join()

    # What follows runs on the thread of MPI, but for `_result`.

    def _result(self, run: Callable[[], Any]) -> Any:
        """Returns what a job of the thread of MPI returns."""
        if os.getpid() != self._process:
            raise CollectiveError(
                "A process that was forked from an instance calls a collective: only the instance "
                "itself is a part of the job. Call it there, and pass the result on."
            )
        if self._is_closed:
            raise CollectiveError("This process has left the job: it ends, and calls a collective.")
        done: Future[Any] = Future()
        self._jobs.put((run, done))
        return done.result()

    def _serve(self, started: Future[tuple[int, int]]) -> None:
        """Runs jobs until the end."""
        try:
            self._mpi = _started_mpi()
            self._world = self._mpi.COMM_WORLD
            self._rank, size = self._world.Get_rank(), self._world.Get_size()
        except BaseException as error:
            started.set_exception(error)
            return
        self._peers = [peer for peer in range(size) if peer != self._rank]
        self._heard = dict.fromkeys(self._peers, time.monotonic())
        self._calls: dict[int, collections.deque[tuple[CollectiveCall, bytes]]] = {
            peer: collections.deque() for peer in self._peers
        }
        self._ended: dict[int, str] = {}
        self._left: set[int] = set()
        self._orders: collections.Counter[tuple[int, ...]] = collections.Counter()
        self._sent: list[tuple[Any, Any]] = []
        self._said, self._has_told_end = 0.0, False
        started.set_result((self._rank, size))
        while True:
            try:
                job = self._jobs.get(timeout=min(1.0, self._limits.heartbeat_seconds / 4))
            except queue.Empty:
                self._listen()
                continue
            if job is None:
                break
            self._run(*job)
        self._leave()

    def _run(self, run: Callable[[], Any], done: Future[Any]) -> None:
        try:
            if self._error is not None:
                raise CollectiveError(self._error)
            done.set_result(run())
        except CollectiveError as error:
            self._fail(str(error))
            done.set_exception(error)
        except BaseException as error:
            self._fail(f"{type(error).__name__}: {error}")
            done.set_exception(error)

    def _fail(self, message: str) -> None:
        """Ends all further collectives, here and in the other processes."""
        if self._error is None:
            self._error = message
            self._tell(_END + message.encode())
            self._has_told_end = True

    def _leave(self) -> None:
        """Ends MPI when the others end, too; if this process has failed, ends them soon after."""
        if self._error is None:
            self._tell(_END + self._reason.encode())
        self._has_told_end = True
        self._tell(_LEFT)
        start = time.monotonic()
        while len(self._left) < len(self._peers) or self._sent:
            is_late = time.monotonic() - start > self._limits.farewell_seconds
            if is_late and self._has_failure():
                break
            self._listen()
            time.sleep(_LONGEST_SLEEP_SECONDS)
        if self._reason:
            self._world.Abort(1)  # MPI's own end would wait for processes that never come.
        if not self._has_failure():
            self._mpi.Finalize()

    def _has_failure(self) -> bool:
        return bool(self._reason) or any(self._ended.values())

    def _tell(self, message: bytes, to: Sequence[int] | None = None) -> None:
        """Sends a control message."""
        for peer in self._peers if to is None else to:
            self._sent.append(
                (self._world.Isend([message, self._mpi.BYTE], peer, _CONTROL), message)
            )

    def _listen(self) -> None:
        """Takes all control messages that have come, and gives a sign of life where it is time."""
        self._sent = [one for one in self._sent if not one[0].Test()]
        now = time.monotonic()
        if not self._has_told_end and now - self._said > self._limits.heartbeat_seconds / 4:
            self._said = now
            self._tell(_ALIVE, [peer for peer in self._peers if peer not in self._ended])
        status = self._mpi.Status()
        while self._world.Iprobe(self._mpi.ANY_SOURCE, _CONTROL, status):
            peer, message = status.Get_source(), bytearray(status.Get_count(self._mpi.BYTE))
            self._world.Recv([message, self._mpi.BYTE], peer, _CONTROL)
            self._heard[peer] = now
            if message[:1] == _CALL:
                (length,) = struct.unpack_from("<q", message, 1)
                packed, rest = bytes(message[9 : 9 + length]), bytes(message[9 + length :])
                self._calls[peer].append((CollectiveCall.of(packed), rest))
            elif message[:1] == _END:
                self._ended.setdefault(peer, message[1:].decode())
            elif message[:1] == _LEFT:
                self._left.add(peer)

    def _meet(self, call: CollectiveCall, members: Sequence[int], own: bytes) -> list[bytes]:
        """Exchanges the descriptions of a call, and bytes beside them.

        Returns:
            The bytes of the members, in their order.
        """
        order = self._orders[tuple(members)]
        self._orders[tuple(members)] += 1
        named = f"instances {members[0]} to {members[-1]}"
        call = dataclasses.replace(call, order=order, replicas=call.replicas or named)
        packed = call.packed()
        others = [peer for peer in members if peer != self._rank]
        self._tell(_CALL + struct.pack("<q", len(packed)) + packed + own, others)
        self._wait(lambda: self._first_missing(others), call)
        came = {peer: self._calls[peer].popleft() for peer in others}
        came[self._rank] = (call, own)
        check_equal({peer: one for peer, (one, _) in came.items()})
        return [came[peer][1] for peer in members]

    def _first_missing(self, others: Sequence[int]) -> int | None:
        return next((peer for peer in others if not self._calls[peer]), None)

    def _exchange(self, sends: Mapping[int, Any], receives: Mapping[int, Any]) -> None:
        """Sends buffers to processes, or lists of them, and receives others."""
        waiting = [
            (peer, self._world.Irecv([buffer, self._mpi.BYTE], peer, _DATA))
            for peer, buffers in receives.items()
            for buffer in (buffers if isinstance(buffers, list) else [buffers])
        ]
        waiting += [
            (peer, self._world.Isend([buffer, self._mpi.BYTE], peer, _DATA))
            for peer, buffers in sends.items()
            for buffer in (buffers if isinstance(buffers, list) else [buffers])
        ]

        def first_open() -> int | None:
            while waiting and waiting[-1][1].Test():
                waiting.pop()
            return waiting[-1][0] if waiting else None

        self._wait(first_open, None)

    def _wait(self, missing: Callable[[], int | None], call: CollectiveCall | None) -> None:
        """Waits until no process is missing.

        Raises:
            CollectiveError: A process has ended, gives no sign of life, or does not come.
        """
        start, polls, sleep = time.monotonic(), 0, _SLEEP_SECONDS
        self._listen()
        self._check_failures(call)
        while (peer := missing()) is not None:
            self._check_failures(call)
            self._check(peer, start, call)
            polls += 1
            time.sleep(0 if polls < _POLLS_BEFORE_SLEEP else sleep)
            if polls > 2 * _POLLS_BEFORE_SLEEP:
                sleep = min(2 * sleep, _LONGEST_SLEEP_SECONDS)
            self._listen()

    def _check_failures(self, call: CollectiveCall | None) -> None:
        for peer, reason in self._ended.items():
            if reason:
                raise CollectiveError(
                    f"Instance {self._rank} waits at {_where(call)}; instance {peer} failed: "
                    f"{reason}"
                )

    def _check(self, peer: int, start: float, call: CollectiveCall | None) -> None:
        """Checks that there is hope for a process that is missing."""
        where = _where(call)
        if peer in self._ended:
            raise CollectiveError(
                f"Instance {self._rank} waits at {where}; instance {peer} has ended, and calls it "
                "no more. All instances have to call the same collectives equally often."
            )
        now = time.monotonic()
        if now - max(self._heard[peer], start) > self._limits.heartbeat_seconds:
            raise CollectiveError(
                f"Instance {self._rank} waits at {where}; instance {peer} has given no sign of life"
                f" for {self._limits.heartbeat_seconds:g} s: it is stopped, or its host is gone. "
                f"{HEARTBEAT} sets the limit."
            )
        if now - start > self._limits.wait_seconds:
            raise CollectiveError(
                f"Instance {self._rank} waits at {where}; instance {peer} runs, but has not come "
                f"for {self._limits.wait_seconds:g} s. All instances have to call it; {WAIT} sets "
                "the limit, for scripts in which an instance works that long alone."
            )

    def _reduced_part(
        self,
        values: Array,
        members: Sequence[int],
        count: int,
        group: int,
        join: Callable[[Array, Array], Array],
    ) -> Array:
        """Returns this process's part of the reduced values."""
        values = np.ascontiguousarray(values)
        parts = _parts(values.shape[1], len(members))
        place = members.index(self._rank)
        own = parts[place]
        sends, receives, rows = {}, {}, {}
        for index, peer in enumerate(members):
            if peer == self._rank:
                rows[peer] = [row[own] for row in values]
                continue
            sends[peer] = [row[parts[index]] for row in values]
            height = len(nodes(index * count, count, group))
            size = own.stop - own.start
            rows[peer] = [np.empty(size, values.dtype) for _ in range(height)]
            receives[peer] = rows[peer]
        self._exchange(sends, receives)
        return _joined([rows[peer] for peer in members], members, count, group, join)

    def _gather_parts(self, part: Array, values: Array, members: Sequence[int]) -> Array:
        """Returns all parts of the reduced values, one after the other."""
        found = np.empty(values.shape[1], values.dtype)
        parts = _parts(values.shape[1], len(members))
        receives = {}
        for peer, where in zip(members, parts, strict=True):
            if peer == self._rank:
                found[where] = part
            else:
                receives[peer] = found[where]
        part = np.ascontiguousarray(part)
        self._exchange(dict.fromkeys(receives, part), receives)
        return found

    def _gather(self, heads: list[bytes], own: bytes, members: Sequence[int]) -> list[bytes]:
        """Returns the bytes of all members, of which large ones are still on their way."""
        sizes = {
            peer: struct.unpack("<bq", head)[1]
            for peer, head in zip(members, heads, strict=True)
            if head[:1] == b"\0"
        }
        others = [peer for peer in members if peer != self._rank]
        receives = {peer: bytearray(size) for peer, size in sizes.items() if peer != self._rank}
        self._exchange(dict.fromkeys(others, own) if self._rank in sizes else {}, receives)
        received = receives | {self._rank: own}
        return [
            bytes(received[peer]) if peer in received else head[1:]
            for peer, head in zip(members, heads, strict=True)
        ]


def _joined(
    rows: Sequence[Sequence[Array]],
    members: Sequence[int],
    count: int,
    group: int,
    join: Callable[[Array, Array], Array],
) -> Array:
    """Returns the reduced rows of all members, each the values of its nodes."""
    values: dict[int, Array] = {}
    for numbers, own in zip(_nodes_of(len(members), count, group), rows, strict=True):
        values.update(zip(numbers, own, strict=True))
    return reduced(values, group, join)


def _where(call: CollectiveCall | None) -> str:
    return "the values of a collective" if call is None else str(call)


def _head(values: bytes) -> bytes:
    """Returns what goes with a call: small bytes, or the number of large ones."""
    is_small = len(values) <= INLINE_BYTES
    return b"\1" + values if is_small else struct.pack("<bq", 0, len(values))


def _nodes_of(processes: int, count: int, group: int) -> list[tuple[int, ...]]:
    """Returns the nodes of the tree that each of some processes has."""
    return [nodes(index * count, count, group) for index in range(processes)]


def _parts(elements: int, count: int) -> list[slice]:
    """Returns consecutive parts of equal size, up to one element."""
    return [slice(elements * k // count, elements * (k + 1) // count) for k in range(count)]


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
