"""A graph of Poplar as arrays, as the C++ libraries send it.

Memory has one address for each byte of every variable; the bytes of a tile are the stretches of
addresses that are mapped to it.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

Bytes = Mapping[str, bytes]


class ProgramKind(enum.IntEnum):
    """Kinds of steps, as ProgramKind of ops/poplar/src/poplar/graph/program_node.h."""

    SEQUENCE = 0
    EXECUTE = 1
    COPY = 2
    FROM_STREAM = 3
    TO_STREAM = 4
    FROM_REMOTE = 5
    TO_REMOTE = 6
    REPEAT = 7
    REPEAT_WHILE = 8
    IF = 9
    SWITCH = 10
    CALL = 11
    PRINT = 12
    ABORT = 13
    ABORT_ON_CONDITION = 14
    NOTHING = 15
    CYCLE_COUNT = 16
    CROSS_REPLICA_COPY = 17
    HOST_FUNCTION = 18

    @property
    def brings_data(self) -> bool:
        """Whether it copies from the host, or from streaming memory, to the tiles."""
        return self in (ProgramKind.FROM_STREAM, ProgramKind.FROM_REMOTE)


WORKER, ALL_WORKERS, SUPERVISOR = range(3)
"""The threads that run a vertex, as VertexKind of codelets.h."""

READ, WRITTEN, ROW, ROW_WITH_COUNT = 1, 2, 4, 8
"""Flags of edges."""

CONSTANT, INITIALISED, HOST_ACCESS = 1, 2, 4
"""Flags of variables."""

PROGRAM = -2
"""The parent of the first step of a program; that of a function has -1."""


class TargetNumbers(TypedDict):
    """What a graph is built for, as `AddTarget` in graph_records.cc writes it.

    Attributes:
        kind: "ipu", "model" or "cpu".
        version: "ipu1" or "ipu2".
        ipus: IPUs of a replica.
        replication_factor: Number of replicas.
        tiles_per_ipu: Tiles of an IPU.
        workers: Worker threads of a tile.
        tile_bytes: Memory of a tile.
        exchange_bytes_per_cycle: Bytes that a tile receives in a cycle.
        sync_cycles: Cycles of a sync of an IPU's tiles.
        link_sync_cycles: Cycles of a sync of several IPUs besides that of their tiles.
        clock_hz: Frequency of the tiles' clock.
    """

    kind: str
    version: str
    ipus: int
    replication_factor: NotRequired[int]
    tiles_per_ipu: int
    workers: int
    tile_bytes: int
    exchange_bytes_per_cycle: int
    sync_cycles: NotRequired[int]
    link_sync_cycles: NotRequired[int]
    clock_hz: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexType:
    """A codelet.

    Attributes:
        name: Its name.
        kind: The threads that run it.
        state_bytes: Bytes of the fields of a vertex, rows of lists not included.
        code_bytes: Bytes of its code, as compiled for the host.
    """

    name: str
    kind: int
    state_bytes: int
    code_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stretches:
    """Stretches of addresses in one order.

    Attributes:
        address: int64[n]: where each begins.
        bytes: int64[n]: its length.
    """

    address: NDArray[np.int64]
    bytes: NDArray[np.int64]

    def __getitem__(self, part: slice) -> Stretches:
        """Returns some of them."""
        return Stretches(address=self.address[part], bytes=self.bytes[part])


class GroupedPlaces:
    """The places of items, group by group.

    Args:
        group: int64[n]: the group of each item.
        groups: Number of groups.
    """

    def __init__(self, group: NDArray[np.int64], groups: int) -> None:
        self._order = np.argsort(group, kind="stable")
        self._ends = np.cumsum(np.bincount(group, minlength=groups))

    def __getitem__(self, number: int) -> NDArray[np.int64]:
        """Returns the places of the items of a group, in their order."""
        return self._order[self._ends[number - 1] if number else 0 : self._ends[number]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProgramTree:
    """The steps of all functions, then of all programs, each before its children.

    Attributes:
        kind: Kind of each.
        id: Its compute set, stream, remote buffer or host function; of a call, the first step of
            the function.
        parent: The step that it belongs to.
        count: Runs of the body of a Repeat.
        bytes: Bytes that it moves.
        moves: Number of its moves.
        first_move: The first of them.
        source: Where moves begin, step after step; for host copies, the tiles' side.
        target: Where they end; for host copies, places in the host's buffer.
    """

    kind: NDArray[np.uint8]
    id: NDArray[np.int64]
    parent: NDArray[np.int64]
    count: NDArray[np.int64]
    bytes: NDArray[np.int64]
    moves: NDArray[np.int64]
    first_move: NDArray[np.int64]
    source: Stretches
    target: Stretches

    def moves_of(self, step: int) -> slice:
        """Returns which moves are those of a step."""
        first = int(self.first_move[step])
        return slice(first, first + int(self.moves[step]))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoplarGraph:
    """A graph with its programs.

    Attributes:
        target: What it is built for.
        types: Its codelets.
        sets: Names of its compute sets.
        streams: Names of its streams, then of its host functions.
        remote_buffers: Names of its remote buffers.
        names: Names of its variables.
        variables: Where each variable lies.
        variable_flags: Flags of each.
        mapped: Stretches of variables on one tile, by address.
        mapped_tile: The tile of each.
        vertex_type: int64[vertices]: the codelet of each vertex.
        vertex_set: The compute set of each.
        vertex_tile: The tile of each.
        vertex_cycles: The estimate of each; 0 for none.
        edge_vertex: int64[edges]: the vertex of each edge.
        edge_flags: Flags of each.
        edge_runs: Number of stretches of each.
        runs: The stretches, edge by edge.
        steps: The programs.
    """

    target: TargetNumbers
    types: Sequence[VertexType]
    sets: Sequence[str]
    streams: Sequence[str]
    remote_buffers: Sequence[str]
    names: Sequence[str]
    variables: Stretches
    variable_flags: NDArray[np.uint8]
    mapped: Stretches
    mapped_tile: NDArray[np.int64]
    vertex_type: NDArray[np.int64]
    vertex_set: NDArray[np.int64]
    vertex_tile: NDArray[np.int64]
    vertex_cycles: NDArray[np.int64]
    edge_vertex: NDArray[np.int64]
    edge_flags: NDArray[np.uint8]
    edge_runs: NDArray[np.int64]
    runs: Stretches
    steps: ProgramTree

    @property
    def edge_of_run(self) -> NDArray[np.int64]:
        """The edge of each stretch of `runs`, int64[runs]."""
        return np.repeat(np.arange(len(self.edge_vertex)), self.edge_runs)

    def variable_at(self, address: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the variables that addresses are in."""
        return np.searchsorted(self.variables.address, address, "right") - 1

    @classmethod
    def of(cls, records: Bytes) -> PoplarGraph:
        """Returns the graph of the records that `GraphRecords` in graph_records.cc makes."""

        def numbers(name: str, kind: str = "<u4") -> NDArray[np.int64]:
            return np.frombuffer(records[name], kind).astype(np.int64)

        def text(name: str) -> list[str]:
            return list(json.loads(records[name]))

        moves, move_bytes = numbers("steps.moves"), numbers("moves.bytes", "<u8")
        return cls(
            target=json.loads(records["target"]),
            types=[VertexType(**one) for one in json.loads(records["types"])],
            sets=text("sets"),
            streams=text("streams"),
            remote_buffers=text("remote_buffers"),
            names=records["variables.names"].decode(errors="replace").split("\0")[:-1],
            variables=Stretches(
                address=numbers("variables.address", "<u8"), bytes=numbers("variables.bytes", "<u8")
            ),
            variable_flags=np.frombuffer(records["variables.flags"], np.uint8),
            mapped=Stretches(
                address=numbers("tiles.address", "<u8"), bytes=numbers("tiles.bytes", "<u8")
            ),
            mapped_tile=numbers("tiles.tile"),
            vertex_type=numbers("vertices.type"),
            vertex_set=numbers("vertices.set"),
            vertex_tile=numbers("vertices.tile"),
            vertex_cycles=numbers("vertices.cycles", "<u8"),
            edge_vertex=numbers("edges.vertex"),
            edge_flags=np.frombuffer(records["edges.flags"], np.uint8),
            edge_runs=numbers("edges.runs"),
            runs=Stretches(
                address=numbers("runs.address", "<u8"), bytes=numbers("runs.bytes", "<u8")
            ),
            steps=ProgramTree(
                kind=np.frombuffer(records["steps.kind"], np.uint8),
                id=numbers("steps.id"),
                parent=numbers("steps.parent", "<i4"),
                count=numbers("steps.count", "<u8"),
                bytes=numbers("steps.bytes", "<u8"),
                moves=moves,
                first_move=np.cumsum(moves) - moves,
                source=Stretches(address=numbers("moves.from", "<u8"), bytes=move_bytes),
                target=Stretches(address=numbers("moves.to", "<u8"), bytes=move_bytes),
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Counts:
    """What ran.

    Attributes:
        runs: int64[steps]: how often each step ran.
        slots: int64[vertices]: issue slots of all runs of each vertex; empty if none was counted.
    """

    runs: NDArray[np.int64]
    slots: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def of(cls, records: Bytes) -> Counts:
        """Returns the counts of the records that `AskWithCounts` in profile.cc makes."""
        return cls(
            runs=np.frombuffer(records["counts.runs"], "<u8").astype(np.int64),
            slots=np.frombuffer(records.get("counts.slots", b""), "<u8").astype(np.int64),
        )
