"""Collectives between the processes of a job, over MPI, which one thread of each process calls."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from ipu_tf.processes import collectives
from ipu_tf.processes.calls import CollectiveCall, CollectiveError
from ipu_tf.processes.collectives import Array
from ipu_tf.processes.limits import WAIT, Limits
from ipu_tf.processes.peers import Peers

_Job = tuple[Callable[[Peers], Any], Future[Any]]
"""What the thread of MPI is to do, and what takes its result."""


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
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._error: str | None = None
        self._reason, self._is_closed = "", False
        place: Future[tuple[int, int]] = Future()
        self._thread = threading.Thread(
            target=self._serve, args=(place,), name="ipu_tf communicator", daemon=True
        )
        self._thread.start()
        try:
            self.rank, self.size = place.result(self._limits.wait_seconds)
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
            join: How two values are reduced, a key of `collectives.JOINS`.
        """
        group = group or self.size * count
        members = self.members(first, count, group)
        reduction = collectives.GroupReduction(members=members, count=count, group=group, join=join)
        return self._result(lambda peers: collectives.all_reduce(peers, call, values, reduction))

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
        return self._result(lambda peers: collectives.all_gather(peers, call, values, among))

    def broadcast(self, call: CollectiveCall, values: bytes, root: int = 0) -> bytes:
        """Returns the bytes of one process.

        Args:
            call: What is broadcast.
            values: Those of this process, used if it is the root.
            root: The number of the process whose bytes all get.
        """
        return self._result(lambda peers: collectives.broadcast(peers, call, values, root))

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

    def _result(self, run: Callable[[Peers], Any]) -> Any:
        """Returns what a job of the thread of MPI returns."""
        if os.getpid() != self._process:
            raise CollectiveError(
                "A process that was forked from an instance calls a collective: only the instance "
                "itself is a part of the job. Call it there, and pass the result on."
            )
        if self._is_closed:
            raise CollectiveError("This process has left the job: it ends, and calls a collective.")
        outcome: Future[Any] = Future()
        self._jobs.put((run, outcome))
        return outcome.result()

    # What follows runs on the thread of MPI.

    def _serve(self, place: Future[tuple[int, int]]) -> None:
        """Does jobs until the end, and gives signs of life."""
        try:
            peers = Peers(self._limits)
        except BaseException as error:
            place.set_exception(error)
            return
        place.set_result((peers.rank, peers.size))
        while True:
            try:
                job = self._jobs.get(timeout=min(1.0, self._limits.heartbeat_seconds / 4))
            except queue.Empty:
                peers.listen()
                continue
            if job is None:
                break
            self._do(job, peers)
        peers.leave(self._reason)

    def _do(self, job: _Job, peers: Peers) -> None:
        run, outcome = job
        try:
            if self._error is not None:
                raise CollectiveError(self._error)
            result = run(peers)
        except BaseException as error:
            is_known = isinstance(error, CollectiveError)
            self._error = self._error or (
                str(error) if is_known else f"{type(error).__name__}: {error}"
            )
            peers.end(self._error)  # Neither this process nor the others go on.
            outcome.set_exception(error)
        else:
            outcome.set_result(result)
