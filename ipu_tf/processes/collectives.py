"""What the processes of a job compute together, on the thread of MPI.

Processes first exchange what they say about their calls, so that calls that differ are found before
any value is used. Small values travel with that; large ones are summed in parts, one a process.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from ipu_tf.processes.calls import CollectiveCall
from ipu_tf.processes.peers import Peers
from ipu_tf.processes.reduction_tree import nodes, reduced

Array = np.ndarray

INLINE_BYTES = 32768
"""Values of at most this size travel with their description."""

BLOCK_BYTES = 4 << 20
"""Large values are summed in blocks of about this size, so that what a process has received is
still in its cache when it adds it up."""

JOINS: Mapping[str, Callable[[Array, Array], Array]] = MappingProxyType(
    {
        "add": np.add,
        "mul": np.multiply,
        "min": lambda a, b: np.where(b < a, b, a),
        "max": lambda a, b: np.where(a < b, b, a),
        "logical_and": np.logical_and,
        "logical_or": np.logical_or,
    }
)
"""How two values are reduced; the same as in `ops/tf/replicas/replica_combine.cc`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReduction:
    """A reduction over a group of replicas.

    Attributes:
        members: The processes that have the group's replicas.
        count: Replicas of each of them.
        group: Replicas of the group.
        join: How two values are reduced, a key of `JOINS`.
    """

    members: tuple[int, ...]
    count: int
    group: int
    join: str

    def nodes(self) -> list[tuple[int, ...]]:
        """Returns the nodes of the tree that each member has."""
        return [nodes(place * self.count, self.count, self.group) for place in self._places()]

    def reduce(self, rows: Sequence[Sequence[Array]]) -> Array:
        """Returns the reduced rows of all members, each the values of its nodes."""
        values: dict[int, Array] = {}
        for numbers, own in zip(self.nodes(), rows, strict=True):
            values.update(zip(numbers, own, strict=True))
        return reduced(values, self.group, JOINS[self.join])

    def parts(self, start: int, end: int) -> list[slice]:
        """Returns consecutive parts of some elements, one a member, equal up to one element."""
        size, count = end - start, len(self.members)
        return [
            slice(start + size * k // count, start + size * (k + 1) // count)
            for k in self._places()
        ]

    def _places(self) -> range:
        return range(len(self.members))


def all_reduce(
    peers: Peers, call: CollectiveCall, values: Array, reduction: GroupReduction
) -> Array:
    """Returns the reduced values; see `Communicator.all_reduce`."""
    # Rows are equally long everywhere; how many there are may differ.
    is_small = values[:1].nbytes <= INLINE_BYTES
    texts = peers.meet(call, reduction.members, values.tobytes() if is_small else b"")
    if is_small:
        rows = [
            list(np.frombuffer(text, values.dtype).reshape(len(numbers), -1))
            for text, numbers in zip(texts, reduction.nodes(), strict=True)
        ]
        return reduction.reduce(rows)
    values = np.ascontiguousarray(values)
    result = np.empty(values.shape[1], values.dtype)
    step = BLOCK_BYTES // values.itemsize
    for start in range(0, len(result), step):
        _reduce_block(peers, values, result, start, min(start + step, len(result)), reduction)
    return result


def all_gather(
    peers: Peers, call: CollectiveCall, values: bytes, members: Sequence[int]
) -> list[bytes]:
    """Returns the bytes of all members; see `Communicator.all_gather`."""
    heads = peers.meet(call, members, _head(values))
    sizes = {
        peer: struct.unpack("<bq", head)[1]
        for peer, head in zip(members, heads, strict=True)
        if head[:1] == b"\0"
    }
    peers_of_call = [peer for peer in members if peer != peers.rank]
    receives = {peer: bytearray(size) for peer, size in sizes.items() if peer != peers.rank}
    peers.exchange(dict.fromkeys(peers_of_call, values) if peers.rank in sizes else {}, receives)
    texts = receives | {peers.rank: values}
    return [
        bytes(texts[peer]) if peer in texts else head[1:]
        for peer, head in zip(members, heads, strict=True)
    ]


def broadcast(peers: Peers, call: CollectiveCall, values: bytes, root: int) -> bytes:
    """Returns the bytes of one process; see `Communicator.broadcast`."""
    is_root = peers.rank == root
    heads = peers.meet(call, range(peers.size), _head(values) if is_root else b"")
    if heads[root][:1] == b"\1":
        return heads[root][1:]
    if is_root:
        peers.exchange({rank: values for rank in range(peers.size) if rank != root}, {})
        return values
    buffer = bytearray(struct.unpack("<bq", heads[root])[1])
    peers.exchange({}, {root: buffer})
    return bytes(buffer)


def _reduce_block(
    peers: Peers, values: Array, result: Array, start: int, end: int, reduction: GroupReduction
) -> None:
    """Gives `result` the reduced values of some elements.

    Each member gets all values of its part of them, reduces these, and sends the result to all.
    """
    members = reduction.members
    parts = dict(zip(members, reduction.parts(start, end), strict=True))
    own = parts.pop(peers.rank)
    rows = {
        peer: [np.empty(own.stop - own.start, values.dtype) for _ in numbers]
        for peer, numbers in zip(members, reduction.nodes(), strict=True)
        if peer != peers.rank
    }
    sends = {peer: [row[part] for row in values] for peer, part in parts.items()}
    peers.exchange(sends, rows)
    rows[peers.rank] = [row[own] for row in values]
    result[own] = reduction.reduce([rows[peer] for peer in members])
    receives = {peer: result[part] for peer, part in parts.items()}
    peers.exchange(dict.fromkeys(parts, result[own]), receives)


def _head(values: bytes) -> bytes:
    """Returns what goes with a call: small bytes, or the number of large ones."""
    is_small = len(values) <= INLINE_BYTES
    return b"\1" + values if is_small else struct.pack("<bq", 0, len(values))
