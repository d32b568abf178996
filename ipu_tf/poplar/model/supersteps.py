"""The supersteps of Execute, Copy, and copies from and to the host.

Models a vertex's operands on other tiles as one exchange before the compute set, and results for
other tiles as one after it; what comes from other IPUs arrives before, and goes to them after. The
exchange moves words to any place, so only elements of less than a word, and operands on the
vertex's own tile that are not in one piece, are copied there. Data of the host lands on the tiles
of its IPU in equal shares, in the host's order, and goes to its tiles from there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ipu_tf.machine import vertices
from ipu_tf.machine.cost import ceil_div
from ipu_tf.machine.superstep import Superstep
from ipu_tf.machine.target import Target
from ipu_tf.machine.tile_figures import TileFigures
from ipu_tf.machine.workers import barrel_cycles
from ipu_tf.poplar.model.exchanges import Exchange, exchange_on
from ipu_tf.poplar.model.graph import (
    ALL_WORKERS,
    READ,
    WRITTEN,
    Counts,
    GroupedPlaces,
    PoplarGraph,
    ProgramKind,
    Stretches,
)
from ipu_tf.poplar.model.machine import Machine
from ipu_tf.poplar.model.pieces import Pieces, TileMap, TileTraffic, Transfers
from ipu_tf.poplar.model.popops import estimates
from ipu_tf.poplar.model.workers import tile_cycles
from ipu_tf.tile_program.steps import PREDICATE_BYTES, decision, exchange_cycles

GLOBAL_EXCHANGE = "global exchange"
"""The name of supersteps in which IPUs send to each other."""

_WORD_BYTES = 4
_NO_TRAFFIC = np.zeros(0, np.int64)


class SuperstepMaker:
    """Makes the supersteps of the steps of a graph.

    Attributes:
        slots: int64[vertices]: issue slots of each vertex, 0 where they are not known.
        traffic_of: The exchange before each compute set that was asked for, for its buffers.
    """

    def __init__(self, graph: PoplarGraph, machine: Machine, slots: NDArray[np.int64]) -> None:
        self.slots = slots
        self.traffic_of: dict[int, tuple[TileTraffic, ...]] = {}
        self._graph, self._machine = graph, machine
        self._target, self._tiles = machine.target, machine.tiles
        self._map = TileMap(mapped=graph.mapped, tile=graph.mapped_tile)
        self._kinds = np.array([one.kind for one in graph.types], np.int64)
        self._vertices = GroupedPlaces(graph.vertex_set, len(graph.sets))
        edge_of_run = graph.edge_of_run
        self._pieces = self._map.pieces(graph.runs)
        edge = edge_of_run[self._pieces.of] if len(edge_of_run) else _NO_TRAFFIC
        self._piece_vertex = graph.edge_vertex[edge]
        self._piece_flags = graph.edge_flags[edge]
        self._piece_is_part = graph.edge_runs[edge] > 1
        self._by_set = GroupedPlaces(graph.vertex_set[self._piece_vertex], len(graph.sets))
        self._of_set: dict[int, tuple[Superstep, ...]] = {}

    def execute(self, number: int) -> tuple[Superstep, ...]:
        """Returns the supersteps of a compute set."""
        if number not in self._of_set:
            self._of_set[number] = self._execute(number)
        return self._of_set[number]

    def copy(self, step: int) -> tuple[Superstep, ...]:
        """Returns the supersteps of a copy between tensors."""
        source, target = self._ends(step)
        stays = source.tile == target.tile
        compute = self._copy_cycles(source.tile[stays], source.bytes[stays])
        narrow = ~stays & (source.bytes % _WORD_BYTES != 0)
        compute += self._copy_cycles(target.tile[narrow], target.bytes[narrow])
        exchange = exchange_on(self._machine, _transfers(source, source.tile, target.tile))
        across, inside = self._across(exchange), self._superstep("copy", compute, exchange.inside)
        return (*across, inside) if inside.total_cycles or not across else across

    def replica_copy(self, step: int) -> tuple[Superstep, ...]:
        """Returns the superstep of a copy from each replica to its neighbour, all at once."""
        source, target = self._ends(step)
        machine, tiles = self._machine, self._tiles
        both = dataclasses.replace(machine, ipus=2 * machine.ipus)
        exchange = exchange_on(both, _transfers(source, source.tile, tiles + target.tile))
        if exchange.across is None:
            return ()
        traffic = TileTraffic(
            received=exchange.across.received[tiles:],
            sent=exchange.across.sent[:tiles],
            messages_in=exchange.across.messages_in[tiles:],
            messages_out=exchange.across.messages_out[:tiles],
        )
        nothing = np.zeros(tiles, np.int64)
        superstep = self._superstep(
            GLOBAL_EXCHANGE, nothing, traffic, both.link_cycles(exchange.link_traffic)
        )
        return (dataclasses.replace(superstep, sync_cycles=machine.sync_of(machine.replicas)),)

    def host_copy(self, step: int) -> tuple[Superstep, ...]:
        """Returns the supersteps of a copy between tiles and host, or streaming memory."""
        steps, kind = self._graph.steps, ProgramKind(self._graph.steps.kind[step])
        pieces = self._shares_of_tiles(self._map.pieces(steps.source[steps.moves_of(step)]))
        from_tile, to_tile = pieces.of, pieces.tile
        if not kind.brings_data:
            from_tile, to_tile = to_tile, from_tile
        exchange = exchange_on(self._machine, _transfers(pieces, from_tile, to_tile))
        nothing = self._copy_cycles(_NO_TRAFFIC, _NO_TRAFFIC)
        rearranged = self._superstep("rearrange", nothing, exchange.inside)
        transfer = self._transfer(kind, pieces)
        return (transfer, rearranged) if kind.brings_data else (rearranged, transfer)

    def decision(self, name: str) -> tuple[Superstep, ...]:
        """Returns the superstep in which all tiles get a value and branch on it."""
        superstep, machine = decision(name, 1, self._target), self._machine
        if machine.ipus == 1:
            return (superstep,)
        transfers = {(0, ipu): (PREDICATE_BYTES, 1) for ipu in range(1, machine.ipus)}
        return (
            dataclasses.replace(
                superstep,
                sync_cycles=machine.sync_of(),
                exchange_cycles=superstep.exchange_cycles + machine.link_cycles(transfers),
            ),
        )

    def _ends(self, step: int) -> tuple[Pieces, Pieces]:
        """Returns the pieces of both sides of a copy, cut alike."""
        steps, part = self._graph.steps, self._graph.steps.moves_of(step)
        moves = steps.source[part]
        target = self._map.pieces(steps.target[part])
        return _cut_alike(self._map.pieces(moves), target, moves)

    def _shares_of_tiles(self, pieces: Pieces) -> Pieces:
        """Returns pieces cut into equal shares of the tiles of their IPU; `of` is the tile."""
        chip = self._target.tiles
        of_ipu = pieces.tile // chip
        parts = []
        for ipu in np.unique(of_ipu).tolist():
            ipu_pieces = pieces[of_ipu == ipu]
            share = -(-int(ipu_pieces.bytes.sum()) // (chip * _WORD_BYTES)) * _WORD_BYTES
            parts.append(_cut_every(ipu_pieces, share or _WORD_BYTES, ipu * chip))
        return parts[0] if len(parts) == 1 else _concatenation(parts or [pieces])

    def _transfer(self, kind: ProgramKind, pieces: Pieces) -> Superstep:
        """Returns the transfer of landed data, which is where it is in equal shares."""
        machine, tiles = self._machine, self._tiles
        shares = np.bincount(pieces.of, pieces.bytes, tiles).astype(np.int64)
        size, of_ipus = int(shares.sum()), shares.reshape(machine.ipus, -1).sum(axis=1)
        if kind in (ProgramKind.FROM_REMOTE, ProgramKind.TO_REMOTE):
            cycles = machine.streaming_cycles(int(of_ipus.max()))
        else:
            cycles = machine.host_cycles(size, int((of_ipus > 0).sum()))
        nothing = np.zeros(tiles, np.int64)
        return Superstep(
            name="transfer",
            sync_cycles=machine.sync_of(),
            host_cycles=cycles,
            exchange_bytes=size,
            tiles=TileFigures.of(
                compute=nothing,
                received_bytes=shares if kind.brings_data else nothing,
                sent_bytes=nothing if kind.brings_data else shares,
                compute_cycles=0,
                exchange_cycles=0,
            ),
        )

    def _execute(self, number: int) -> tuple[Superstep, ...]:
        graph, machine = self._graph, self._machine
        places = self._by_set[number]
        pieces, flags = self._pieces[places], self._piece_flags[places]
        tile, size = pieces.tile, pieces.bytes
        user = graph.vertex_tile[self._piece_vertex[places]]
        reads, writes = (flags & READ) != 0, (flags & WRITTEN) != 0
        before = exchange_on(machine, _transfers(pieces, tile, user)[reads])
        after = exchange_on(machine, _transfers(pieces, user, tile)[writes])
        self.traffic_of[number] = before.parts
        parts = self._piece_is_part[places]
        scattered = parts & ((tile == user) | (size % _WORD_BYTES != 0))
        compute = self._copy_cycles(user[scattered & reads], size[scattered & reads])
        copy_cycles = self._copy_cycles(user[scattered & writes], size[scattered & writes])
        members = self._vertices[number]
        compute += tile_cycles(
            graph.vertex_tile[members],
            self._kinds[graph.vertex_type[members]],
            self.slots[members],
            self._target,
            self._tiles,
        )
        cost = (
            *self._across(before),
            self._superstep("compute", compute, before.inside),
            self._superstep("return results", copy_cycles, after.inside),
            *self._across(after),
        )
        return tuple(one for one in cost if one.total_cycles)

    def _copy_cycles(self, tile: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the cycles in which each tile copies pieces, int64[tiles]."""
        if not len(tile):
            return np.zeros(self._tiles, np.int64)
        moved_bytes = np.bincount(tile, size, self._tiles).astype(np.int64)
        pieces = np.maximum(1, np.bincount(tile, minlength=self._tiles))
        mean = np.maximum(1, moved_bytes // pieces)
        cost = vertices.copy(moved_bytes, "s8", self._target, piece_elements=mean)
        return np.asarray(cost.cycles, np.int64)

    def _across(self, exchange: Exchange) -> tuple[Superstep, ...]:
        """Returns the superstep in which IPUs send to each other, if they do."""
        if exchange.across is None:
            return ()
        nothing = np.zeros(self._tiles, np.int64)
        over_links = self._machine.link_cycles(exchange.link_traffic)
        return (self._superstep(GLOBAL_EXCHANGE, nothing, exchange.across, over_links),)

    def _superstep(
        self, name: str, compute: NDArray[np.int64], traffic: TileTraffic, over_links: int = 0
    ) -> Superstep:
        exchanging = exchange_cycles(traffic.traffic, self._target) + over_links
        sync = self._machine.sync_of() if over_links else self._target.sync_cycles
        slowest = int(compute.max(initial=0))
        return Superstep(
            name=name,
            sync_cycles=sync if exchanging else 0,
            exchange_cycles=exchanging,
            compute_cycles=slowest,
            busy_tile_cycles=int(compute.sum()),
            exchange_bytes=int(traffic.received.sum()),
            tiles=TileFigures.of(
                compute=compute,
                received_bytes=traffic.received,
                sent_bytes=traffic.sent,
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
    slots = estimates(graph, target)
    if not len(counts.slots):
        return slots
    runs = set_runs(graph, counts.runs)
    has_count = counts.slots > 0
    times = np.maximum(1, runs[graph.vertex_set])
    slots[has_count] = ceil_div(counts.slots[has_count], times[has_count])
    kinds = np.array([one.kind for one in graph.types], np.int64)[graph.vertex_type]
    on_all = has_count & (kinds == ALL_WORKERS)
    slots[on_all] = barrel_cycles(slots[on_all], target)
    return slots


def set_runs(graph: PoplarGraph, runs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns how often each compute set ran, int64[sets], given how often each step did."""
    executes = graph.steps.kind == ProgramKind.EXECUTE
    counts = np.zeros(len(graph.sets), np.int64)
    np.add.at(counts, graph.steps.id[executes], runs[executes])
    return counts


def _transfers(
    pieces: Pieces, source: NDArray[np.int64], destination: NDArray[np.int64]
) -> Transfers:
    return Transfers(
        source=source, destination=destination, address=pieces.address, bytes=pieces.bytes
    )


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


def _cut_every(pieces: Pieces, share: int, first_tile: int) -> Pieces:
    """Returns pieces cut where a tile's share of the host's data ends; `of` is that tile.

    Args:
        pieces: The pieces of an IPU, in the host's order.
        share: Bytes of a tile.
        first_tile: The first tile of the IPU.
    """
    total = int(pieces.bytes.sum())
    cuts = np.unique(np.concatenate((_places(pieces), np.arange(0, total, share))))
    parts = _recut(pieces, cuts, np.append(cuts[1:], total))
    return Pieces(
        of=first_tile + cuts // share, address=parts.address, bytes=parts.bytes, tile=parts.tile
    )


def _concatenation(parts: Sequence[Pieces]) -> Pieces:
    return Pieces(
        of=np.concatenate([one.of for one in parts]),
        address=np.concatenate([one.address for one in parts]),
        bytes=np.concatenate([one.bytes for one in parts]),
        tile=np.concatenate([one.tile for one in parts]),
    )
