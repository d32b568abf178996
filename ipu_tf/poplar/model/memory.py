"""Memory of a graph: variables with their lifetimes, buffers of exchanges, vertex state, code.

A variable that each run writes in full before it reads it lives from that step to its last use, or
through the whole loop around them; all others always live. Models no overlay of code, and takes a
codelet's bytes from its code for the host, unless it is one of popops.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ipu_tf.machine.exchange import exchange_code_bytes
from ipu_tf.poplar.model.graph import (
    CONSTANT,
    HOST_ACCESS,
    INITIALISED,
    PROGRAM,
    READ,
    ROW,
    ROW_WITH_COUNT,
    WRITTEN,
    GroupedPlaces,
    PoplarGraph,
    ProgramKind,
    Stretches,
)
from ipu_tf.poplar.model.machine import Machine
from ipu_tf.poplar.model.pieces import TileTraffic
from ipu_tf.poplar.model.popops import code_bytes
from ipu_tf.tile_program.layouts.footprint import Footprint
from ipu_tf.tile_program.memory import stack_bytes
from ipu_tf.tile_program.program import Category, Tensor

_MOST_NAMES = 400
"""Variables that a report names, the largest; the others of a category count together."""

_RUNS = 64
"""Footprints of a tensor at most; of an uneven one, neighbouring tiles count with the largest."""

_LOOPS = (ProgramKind.REPEAT, ProgramKind.REPEAT_WHILE)


class Memory:
    """Memory of the tiles of a graph.

    Args:
        graph: The graph.
        numbers: Its steps that have a cost, in order.
        traffic_of: The exchange before each compute set.
        machine: The IPUs.
    """

    def __init__(
        self,
        graph: PoplarGraph,
        numbers: NDArray[np.int64],
        traffic_of: Mapping[int, tuple[TileTraffic, ...]],
        machine: Machine,
    ) -> None:
        self._graph, self._numbers, self._machine = graph, numbers, machine
        self._traffic_of = traffic_of
        self._of_mapped = graph.variable_at(graph.mapped.address)
        self._mapped = GroupedPlaces(self._of_mapped, len(graph.names))
        self._lives = self._lifetimes()
        sizes = graph.variables.bytes
        temporary = self._lives[:, 0] >= 0
        largest = np.argsort(-sizes, kind="stable")
        self._has_name = np.zeros(len(sizes), np.bool_)
        self._has_name[largest[:_MOST_NAMES]] = True
        self._has_name |= temporary  # Their time is their own.

    def tensors(self) -> list[list[Tensor]]:
        """Returns the variables that have names, and the buffers of exchanges, IPU by IPU."""
        tensors_of_ipus: list[list[Tensor]] = [[] for _ in range(self._machine.ipus)]
        last = max(0, len(self._numbers) - 1)
        for variable in np.flatnonzero(self._has_name).tolist():
            first_step, last_step = self._lives[variable].tolist()
            name = self._graph.names[variable] or f"variable {variable}"
            always = first_step < 0
            constant = self._graph.variable_flags[variable] & CONSTANT
            category: Category = "constants" if constant else "state" if always else "scratch"
            _add(
                tensors_of_ipus,
                name,
                category,
                self._tile_bytes(variable),
                (0, last) if always else (first_step, last_step),
                always,
            )
        for place, number in enumerate(self._numbers.tolist()):
            if self._graph.steps.kind[number] == ProgramKind.EXECUTE:
                of = int(self._graph.steps.id[number])
                group, slash, set_name = self._graph.sets[of].rpartition("/")
                name = f"{group}{slash}operands of {set_name}"
                receive_bytes = np.sum([one.received for one in self._traffic_of[of]], axis=0)
                _add(
                    tensors_of_ipus, name, "exchange_buffers", receive_bytes, (place, place), False
                )
        return tensors_of_ipus

    def program_bytes(self) -> dict[Category, NDArray[np.int64]]:
        """Returns the bytes of every tile that no tensor names: int64[tiles] per category."""
        graph, tiles = self._graph, self._machine.tiles
        nameless = ~self._has_name[self._of_mapped]
        constant = (graph.variable_flags[self._of_mapped] & CONSTANT) != 0
        by_tile = {
            kind: np.bincount(
                graph.mapped_tile[nameless & is_kind], graph.mapped.bytes[nameless & is_kind], tiles
            ).astype(np.int64)
            for kind, is_kind in (("state", ~constant), ("constants", constant))
        }
        return {
            "state": by_tile["state"],
            "constants": by_tile["constants"],
            "vertex_state": self._vertex_state(),
            "vertex_code": self._vertex_code(),
            "exchange_code": self._exchange_code(),
            "stack": np.full(tiles, stack_bytes(self._machine.target), np.int64),
        }

    def _vertex_state(self) -> NDArray[np.int64]:
        graph = self._graph
        of_type = np.array([one.state_bytes for one in graph.types], np.int64)
        state = of_type[graph.vertex_type] if len(graph.vertex_type) else np.zeros(0, np.int64)
        rows = 4 * ((graph.edge_flags & ROW) != 0) + 4 * ((graph.edge_flags & ROW_WITH_COUNT) != 0)
        state = state + np.bincount(graph.edge_vertex, rows, len(state)).astype(np.int64)
        return np.bincount(graph.vertex_tile, state, self._machine.tiles).astype(np.int64)

    def _vertex_code(self) -> NDArray[np.int64]:
        graph, tiles = self._graph, self._machine.tiles
        pairs = np.unique(graph.vertex_type * tiles + graph.vertex_tile)
        of_type = code_bytes(graph, self._machine.target)
        code = of_type[pairs // tiles] if len(pairs) else pairs
        return np.bincount(pairs % tiles, code, tiles).astype(np.int64)

    def _exchange_code(self) -> NDArray[np.int64]:
        code = np.zeros(self._machine.tiles, np.int64)
        for traffic in chain.from_iterable(self._traffic_of.values()):
            code += np.asarray(
                exchange_code_bytes(
                    received=traffic.messages_in,
                    sent=traffic.messages_out,
                    sent_bytes=traffic.sent,
                )
            )
        return code

    def _tile_bytes(self, variable: int) -> NDArray[np.int64]:
        graph, part = self._graph, self._mapped[variable]
        return np.bincount(
            graph.mapped_tile[part], graph.mapped.bytes[part], self._machine.tiles
        ).astype(np.int64)

    def _lifetimes(self) -> NDArray[np.int64]:
        """Returns the first and the last step of each variable, int64[variables, 2]; -1: always."""
        graph = self._graph
        lives = np.full((len(graph.names), 2), -1, np.int64)
        spans, roots = self._spans()
        uses = _Uses(graph)
        is_lasting = (graph.variable_flags & (CONSTANT | INITIALISED | HOST_ACCESS)) != 0
        root_of = np.full(len(lives), -1, np.int64)
        for place, number in enumerate(self._numbers.tolist()):
            reads, writes = uses.of(number)
            begin, end = spans[place]
            for is_read, variables in ((True, reads), (False, writes)):
                for variable, whole in variables:
                    if is_lasting[variable]:
                        continue
                    new = root_of[variable] < 0
                    if (
                        (new and (is_read or not whole))
                        or (not new and root_of[variable] != roots[place])
                        or roots[place] < 0
                    ):
                        is_lasting[variable], lives[variable] = True, -1
                        continue
                    root_of[variable] = roots[place]
                    if new:
                        lives[variable, 0] = begin
                    lives[variable, 1] = max(lives[variable, 1], end)
        return lives

    def _spans(self) -> tuple[list[tuple[int, int]], list[int]]:
        """Returns the steps of the outermost loop around each step, and its program; -1: none.

        Branches count as loops, since the other branch may not write what this one does; steps of
        functions belong to no program.
        """
        steps = self._graph.steps
        parents, kinds = steps.parent.tolist(), steps.kind.tolist()
        place_of = {number: place for place, number in enumerate(self._numbers.tolist())}
        outer: list[int] = []
        roots: list[int] = []
        for number, parent in enumerate(parents):
            if parent < 0:
                outer.append(-1)
                roots.append(number if parent == PROGRAM else -1)
            else:
                loop = number if kinds[parent] in _LOOPS and outer[parent] < 0 else outer[parent]
                outer.append(parent if loop == number else loop)
                branch = kinds[parent] in (ProgramKind.IF, ProgramKind.SWITCH)
                roots.append(-1 if branch else roots[parent])
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for number, place in place_of.items():
            if outer[number] >= 0:
                first.setdefault(outer[number], place)
                last[outer[number]] = place
        spans = [
            (first[outer[n]], last[outer[n]]) if outer[n] >= 0 else (place, place)
            for n, place in place_of.items()
        ]
        return spans, [roots[number] for number in place_of]


def _add(
    tensors_of_ipus: list[list[Tensor]],
    name: str,
    category: Category,
    tile_bytes: NDArray[np.int64],
    steps: tuple[int, int],
    always: bool,
) -> None:
    """Adds a tensor to those of each IPU that holds a part of it."""
    for tensors, ipu_tensors in zip(
        tensors_of_ipus, tile_bytes.reshape(len(tensors_of_ipus), -1), strict=True
    ):
        tensors += _spread(name, category, ipu_tensors, steps, always)


def _spread(
    name: str,
    category: Category,
    tile_bytes: NDArray[np.int64],
    steps: tuple[int, int],
    always: bool,
) -> list[Tensor]:
    """Returns a tensor for each run of tiles of an IPU with equally many bytes."""
    total = int(tile_bytes.sum())
    return [
        Tensor(
            name=name.rpartition("/")[2] or name,
            layer=name,
            category=category,
            footprint=footprint,
            bytes=total,
            first_step=steps[0],
            last_step=steps[1],
            always_live=always,
        )
        for footprint in footprints(tile_bytes)
    ]


def footprints(tile_bytes: NDArray[np.int64]) -> list[Footprint]:
    """Returns the memory of each run of tiles with equally many bytes.

    Args:
        tile_bytes: int64[tiles]: the bytes of each tile.
    """
    begins = np.flatnonzero(np.diff(tile_bytes, prepend=-1))
    if len(begins) > _RUNS:
        begins = np.unique(np.linspace(0, len(tile_bytes), _RUNS, endpoint=False, dtype=int))
    ends = np.append(begins, len(tile_bytes))[1:]
    most = np.maximum.reduceat(tile_bytes, begins)
    return [
        Footprint(first_tile=begin, tiles=end - begin, tile_bytes=size)
        for begin, end, size in zip(begins.tolist(), ends.tolist(), most.tolist(), strict=True)
        if size
    ]


class _Uses:
    """The variables that a step reads and writes."""

    def __init__(self, graph: PoplarGraph) -> None:
        self._graph = graph
        edge = graph.edge_of_run
        variable = graph.variable_at(graph.runs.address)
        flags = graph.edge_flags[edge]
        place = graph.vertex_set[graph.edge_vertex[edge]]
        count = max(1, len(graph.names))
        self._reads = _by_set(place, variable, graph.runs.bytes, (flags & READ) != 0, count)
        self._writes = _by_set(place, variable, graph.runs.bytes, (flags & WRITTEN) != 0, count)

    def of(self, step: int) -> tuple[list[tuple[int, bool]], list[tuple[int, bool]]]:
        """Returns what a step reads, then what it writes: variables, and whether all of each."""
        steps, kind = self._graph.steps, ProgramKind(self._graph.steps.kind[step])
        if kind == ProgramKind.EXECUTE:
            place = int(steps.id[step])
            return self._whole(self._reads.get(place)), self._whole(self._writes.get(place))
        source = self._of_move(steps.source, step)
        if kind in (ProgramKind.COPY, ProgramKind.CROSS_REPLICA_COPY):
            return source, self._of_move(steps.target, step)
        if kind.brings_data:
            return [], source
        return source, []

    def _of_move(self, stretches: Stretches, step: int) -> list[tuple[int, bool]]:
        part = self._graph.steps.moves_of(step)
        variables = self._graph.variable_at(stretches.address[part])
        numbers, place = np.unique(variables, return_inverse=True)
        sizes = np.bincount(place, stretches.bytes[part]).astype(np.float64)
        return self._whole((numbers, sizes) if len(numbers) else None)

    def _whole(
        self, sized_variables: tuple[NDArray[np.int64], NDArray[np.float64]] | None
    ) -> list[tuple[int, bool]]:
        if sized_variables is None:
            return []
        variables, sizes = sized_variables
        whole = sizes >= self._graph.variables.bytes[variables]
        return list(zip(variables.tolist(), whole.tolist(), strict=True))


def _by_set(
    place: NDArray[np.int64],
    variable: NDArray[np.int64],
    size: NDArray[np.int64],
    is_edge: NDArray[np.bool_],
    variables: int,
) -> dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Returns for each compute set its variables, and the bytes of each that its edges have."""
    keys, inverse = np.unique(place[is_edge] * variables + variable[is_edge], return_inverse=True)
    sizes = np.bincount(inverse, size[is_edge], len(keys)).astype(np.float64)
    sets = keys // variables
    bounds = np.flatnonzero(np.diff(sets, prepend=-1))
    ends = np.append(bounds, len(keys))[1:]
    return {
        int(sets[begin]): (keys[begin:end] % variables, sizes[begin:end])
        for begin, end in zip(bounds.tolist(), ends.tolist(), strict=True)
    }
