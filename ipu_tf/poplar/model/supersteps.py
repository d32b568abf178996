"""The supersteps of Execute, Copy, and copies from and to the host.

Models a vertex's operands on other tiles as one exchange before the compute set, and results for
other tiles as one after it. The exchange moves words to any place, so only elements of less than a
word, and operands on the vertex's own tile that are not in one piece, are copied there. Data of the
host lands on the tiles in equal shares, in the host's order, and goes to its tiles from there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ipu_tf.machine import host, streaming, vertices
from ipu_tf.machine.cost import ceil_div
from ipu_tf.machine.superstep import Superstep
from ipu_tf.machine.system import System
from ipu_tf.machine.target import Target
from ipu_tf.machine.tile_figures import TileFigures
from ipu_tf.machine.workers import barrel_cycles
from ipu_tf.poplar.model.graph import (
    ALL_WORKERS,
    READ,
    WRITTEN,
    Counts,
    Grouping,
    PoplarGraph,
    ProgramKind,
    Stretches,
)
from ipu_tf.poplar.model.pieces import Pieces, TileMap, TileTraffic, exchange
from ipu_tf.poplar.model.workers import tile_cycles
from ipu_tf.tile_program.steps import exchange_cycles

_WORD_BYTES = 4
_NO_TRAFFIC = np.zeros(0, np.int64)


class SuperstepMaker:
    """Makes the supersteps of the steps of a graph.

    Attributes:
        slots: int64[vertices]: issue slots of each vertex, 0 where they are not known.
        traffic_of: The exchange before each compute set that was asked for, for its buffers.
    """

    def __init__(self, graph: PoplarGraph, system: System, slots: NDArray[np.int64]) -> None:
        self.slots = slots
        self.traffic_of: dict[int, TileTraffic] = {}
        self._graph, self._system = graph, system
        self._map = TileMap(mapped=graph.mapped, tile=graph.mapped_tile)
        self._kinds = np.array([one.kind for one in graph.types], np.int64)
        self._vertices = Grouping(graph.vertex_set, len(graph.sets))
        edge_of_run = graph.edge_of_run
        self._pieces = self._map.pieces(graph.runs)
        edge = edge_of_run[self._pieces.of] if len(edge_of_run) else _NO_TRAFFIC
        self._piece_vertex = graph.edge_vertex[edge]
        self._piece_flags = graph.edge_flags[edge]
        self._piece_is_part = graph.edge_runs[edge] > 1
        self._by_set = Grouping(graph.vertex_set[self._piece_vertex], len(graph.sets))
        self._of_set: dict[int, tuple[Superstep, ...]] = {}

    def execute(self, number: int) -> tuple[Superstep, ...]:
        """Returns the supersteps of a compute set."""
        if number not in self._of_set:
            self._of_set[number] = self._execute(number)
        return self._of_set[number]

    def copy(self, step: int) -> tuple[Superstep, ...]:
        """Returns the supersteps of a copy between tensors."""
        steps, part = self._graph.steps, self._graph.steps.moves_of(step)
        moves = steps.source[part]
        target_pieces = self._map.pieces(steps.target[part])
        source, target = _cut_alike(self._map.pieces(moves), target_pieces, moves)
        stays = source.tile == target.tile
        compute = self._copied(source.tile[stays], source.bytes[stays])
        narrow = ~stays & (source.bytes % _WORD_BYTES != 0)
        compute += self._copied(target.tile[narrow], target.bytes[narrow])
        moved = exchange(source.tile, target.tile, source.address, source.bytes, self._target.tiles)
        return (self._superstep("copy", compute, moved),)

    def host_copy(self, step: int) -> tuple[Superstep, ...]:
        """Returns the supersteps of a copy between tiles and host, or streaming memory."""
        steps, kind = self._graph.steps, ProgramKind(self._graph.steps.kind[step])
        pieces = self._map.pieces(steps.source[steps.moves_of(step)])
        size = int(pieces.bytes.sum())
        share = -(-max(1, size) // (self._target.tiles * _WORD_BYTES)) * _WORD_BYTES
        landed = _cut_every(pieces, share)
        from_tile, to_tile = landed.of, landed.tile
        if not kind.brings_data:
            from_tile, to_tile = to_tile, from_tile
        moved = exchange(from_tile, to_tile, landed.address, landed.bytes, self._target.tiles)
        rearranged = self._superstep("rearrange", self._copied(_NO_TRAFFIC, _NO_TRAFFIC), moved)
        transfer = self._transfer(kind, landed)
        return (transfer, rearranged) if kind.brings_data else (rearranged, transfer)

    @property
    def _target(self) -> Target:
        return self._system.target

    def _transfer(self, kind: ProgramKind, landed: Pieces) -> Superstep:
        """Returns the transfer of landed data, which is where it is in equal shares."""
        tiles = self._target.tiles
        size = int(landed.bytes.sum())
        if kind in (ProgramKind.FROM_REMOTE, ProgramKind.TO_REMOTE):
            seconds = streaming.transfer_seconds(self._system, size)
            cycles = round(seconds * self._target.clock_hz)
        else:
            cycles = host.transfer_cycles(self._system, size)
        shares = np.bincount(landed.of, landed.bytes, tiles).astype(np.int64)
        nothing = np.zeros(tiles, np.int64)
        is_in = kind.brings_data
        return Superstep(
            name="transfer",
            sync_cycles=self._target.sync_cycles,
            host_cycles=cycles,
            exchange_bytes=size,
            tiles=TileFigures.of(
                compute=nothing,
                received=shares if is_in else nothing,
                sent=nothing if is_in else shares,
                compute_cycles=0,
                exchange_cycles=0,
            ),
        )

    def _execute(self, number: int) -> tuple[Superstep, ...]:
        graph, tiles = self._graph, self._target.tiles
        which = self._by_set[number]
        held, address = self._pieces.tile[which], self._pieces.address[which]
        size, flags = self._pieces.bytes[which], self._piece_flags[which]
        user = graph.vertex_tile[self._piece_vertex[which]]
        reads, writes = (flags & READ) != 0, (flags & WRITTEN) != 0
        before = exchange(held[reads], user[reads], address[reads], size[reads], tiles)
        after = exchange(user[writes], held[writes], address[writes], size[writes], tiles)
        self.traffic_of[number] = before
        parts = self._piece_is_part[which]
        scattered = parts & ((held == user) | (size % _WORD_BYTES != 0))
        compute = self._copied(user[scattered & reads], size[scattered & reads])
        returned = self._copied(user[scattered & writes], size[scattered & writes])
        members = self._vertices[number]
        compute += tile_cycles(
            graph.vertex_tile[members],
            self._kinds[graph.vertex_type[members]],
            self.slots[members],
            self._target,
        )
        made = (
            self._superstep("compute", compute, before),
            self._superstep("return results", returned, after),
        )
        return tuple(one for one in made if one.total_cycles)

    def _copied(self, tile: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the cycles in which each tile copies pieces, int64[tiles]."""
        tiles = self._target.tiles
        if not len(tile):
            return np.zeros(tiles, np.int64)
        moved = np.bincount(tile, size, tiles).astype(np.int64)
        pieces = np.maximum(1, np.bincount(tile, minlength=tiles))
        mean = np.maximum(1, moved // pieces)
        cost = vertices.copy(moved, "s8", self._target, piece_elements=mean)
        return np.asarray(cost.cycles, np.int64)

    def _superstep(self, name: str, compute: NDArray[np.int64], moved: TileTraffic) -> Superstep:
        exchanging = exchange_cycles(moved.traffic, self._target)
        slowest = int(compute.max(initial=0))
        return Superstep(
            name=name,
            sync_cycles=self._target.sync_cycles if exchanging else 0,
            exchange_cycles=exchanging,
            compute_cycles=slowest,
            busy_tile_cycles=int(compute.sum()),
            exchange_bytes=int(moved.received.sum()),
            tiles=TileFigures.of(
                compute=compute,
                received=moved.received,
                sent=moved.sent,
                compute_cycles=slowest,
                exchange_cycles=exchanging,
            ),
        )


def slots_of(graph: PoplarGraph, counts: Counts, target: Target) -> NDArray[np.int64]:
    """Returns the issue slots of each vertex in one run of its compute set; 0 where not known.

    An estimate holds; else the mean of what was counted while it ran. Vertices that do not share
    their tile have cycles in place of slots: their estimates are cycles, and of the instructions
    that were counted a supervisor issues one a cycle.
    """
    slots = graph.vertex_cycles.copy()
    if not len(counts.slots):
        return slots
    runs = set_runs(graph, counts.runs)
    counted = counts.slots > 0
    times = np.maximum(1, runs[graph.vertex_set])
    slots[counted] = ceil_div(counts.slots[counted], times[counted])
    kinds = np.array([one.kind for one in graph.types], np.int64)[graph.vertex_type]
    on_all = counted & (kinds == ALL_WORKERS)
    slots[on_all] = barrel_cycles(slots[on_all], target)
    return slots


def set_runs(graph: PoplarGraph, runs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns how often each compute set ran, int64[sets], given how often each step did."""
    executes = graph.steps.kind == ProgramKind.EXECUTE
    found = np.zeros(len(graph.sets), np.int64)
    np.add.at(found, graph.steps.id[executes], runs[executes])
    return found


def _cut_alike(source: Pieces, target: Pieces, moves: Stretches) -> tuple[Pieces, Pieces]:
    """Returns the pieces of both sides of moves, cut where either of them is."""
    cuts = np.unique(np.concatenate((_places(source), _places(target), _places(moves))))
    ends = np.append(cuts[1:], moves.bytes.sum())
    return _recut(source, cuts, ends), _recut(target, cuts, ends)


def _places(pieces: Pieces | Stretches) -> NDArray[np.int64]:
    """Returns where each piece begins in the order of all."""
    return np.cumsum(pieces.bytes) - pieces.bytes


def _recut(pieces: Pieces, cuts: NDArray[np.int64], ends: NDArray[np.int64]) -> Pieces:
    places = _places(pieces)
    at = np.searchsorted(places, cuts, "right") - 1
    return Pieces(
        of=pieces.of[at],
        address=pieces.address[at] + (cuts - places[at]),
        bytes=ends - cuts,
        tile=pieces.tile[at],
    )


def _cut_every(pieces: Pieces, share: int) -> Pieces:
    """Returns pieces cut where a tile's share of the host's data ends; `of` is that tile."""
    total = int(pieces.bytes.sum())
    cuts = np.unique(np.concatenate((_places(pieces), np.arange(0, total, share))))
    cut = _recut(pieces, cuts, np.append(cuts[1:], total))
    return Pieces(of=cuts // share, address=cut.address, bytes=cut.bytes, tile=cut.tile)
