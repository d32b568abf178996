"""Finds checkpoints: where to cut the forward pass so that little memory is live at a time.

While a segment runs backward, the values that it keeps and recomputes are live, and those that the
segments before it keep. So segments near the end should be shorter: of 15 equal layers, checkpoints
after the layers 5, 9, 12 and 14 leave 5 activations live, and 10 layers run twice.

Bytes are those of the values; the memory of tiles is known when the program is compiled.
"""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ipu_tf.compiler.hlo import Instruction, Module
from ipu_tf.compiler.hlo.module import LOSS, METRICS
from ipu_tf.compiler.recomputation.segments import ForwardPass

_VIEWS = frozenset({"bitcast", "broadcast", "get-tuple-element", "reshape", "transpose"})
_MOST_PLACES = 96
"""Cuts between which the search chooses; those that the fewest bytes cross."""

_KEPT_STEPS = 64
"""Amounts of kept bytes that the search tells apart."""

_LEAST = -1
"""The amount under which the search knows the way that keeps the fewest bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """Checkpoints, and the search's idea of their effect.

    Attributes:
        cuts: Places of the entry's instructions before which a segment ends.
        live_bytes: The most bytes of activations that are live at a time.
        cost: The cost of the instructions that run twice.
    """

    cuts: tuple[int, ...]
    live_bytes: int
    cost: int


class CheckpointSearch:
    """Finds checkpoints of a step that runs on one IPU.

    Args:
        module: The step, simplified.
        costs: The cost of an instruction by its name, such as its cycles; by default 1 each.
    """

    def __init__(self, module: Module, costs: Mapping[str, int] | None = None) -> None:
        forward = ForwardPass(module)
        self._entry = list(forward.entry)
        self._by_name = forward.entry.by_name()
        place = {instruction.name: number for number, instruction in enumerate(self._entry)}
        activations = forward.recomputable - forward.floating
        read_last: dict[int, int] = {}
        stash: set[int] = set()
        for reader in self._entry:
            for name in map(self._source, reader.operands):
                if name not in activations:
                    continue
                if reader.phase == "backward":
                    stash.add(place[name])
                elif forward.is_forward(reader):
                    read_last[place[name]] = max(read_last.get(place[name], 0), place[reader.name])
        count = len(self._entry)
        self._stash = np.zeros(count, np.int64)
        for number in stash:
            self._stash[number] = self._entry[number].type.bytes
        cost = np.zeros(count, np.int64)
        for name in activations:
            cost[place[name]] = 1 if costs is None else costs.get(name, 0)
        self._cost = cost
        self._activations = sorted(map(place.__getitem__, activations))
        self._savings = self._costs_with_sources(forward)
        self._crossing = {
            number: (last, self._entry[number].type.bytes) for number, last in read_last.items()
        }
        self._end = max((place[name] for name in activations), default=-1) + 1
        self._places = self._candidates()
        self._tables()

    def _costs_with_sources(self, forward: ForwardPass) -> NDArray[np.int64]:
        """Returns the cost of each instruction with those that nothing but it needs."""
        costs = self._cost.copy()
        place = {instruction.name: number for number, instruction in enumerate(self._entry)}
        for number, instruction in enumerate(self._entry):
            readers = forward.read_by[instruction.name]
            # Its only reader, which comes later, gets its cost.
            if len(readers) == 1 and readers[0].phase == "forward":
                costs[place[readers[0].name]] += costs[number]
        return costs

    def _source(self, name: str) -> str:
        """Returns the value in memory that a value is a view of."""
        value: Instruction = self._by_name[name]
        while value.opcode in _VIEWS and value.operands:
            value = self._by_name[value.operands[0]]
        return value.name

    def _candidates(self) -> list[int]:
        """Returns the places of possible cuts, the beginning and the end of the forward pass.

        Cuts are between layers, or anywhere if all instructions are of one layer.
        """
        change = np.zeros(len(self._entry) + 1, np.int64)
        for maker, (last, value_bytes) in self._crossing.items():
            change[maker + 1] += value_bytes
            change[last + 1] -= value_bytes
        crossing = np.cumsum(change)
        makers = self._activations
        inner = [n + 1 for n in makers[:-1] if crossing[n + 1] > 0]
        layers = [
            before + 1
            for before, after in itertools.pairwise(makers)
            if self._entry[before].layer != self._entry[after].layer
            and self._entry[before].layer not in ("", LOSS, METRICS)
            and crossing[before + 1] > 0
        ]
        places = layers or inner
        if len(places) > _MOST_PLACES:
            highest = sorted(crossing[n] for n in places)[_MOST_PLACES - 1]
            places = [n for n in places if crossing[n] <= highest]
            places = [places[n * len(places) // _MOST_PLACES] for n in range(_MOST_PLACES)]
        return [0, *places, self._end]

    def _tables(self) -> None:
        """Fills the tables of segments: kept bytes, bytes at work, and cost, by its two places."""
        size = len(self._places)
        self._keeps = np.zeros((size, size), np.int64)
        self._works = np.zeros((size, size), np.int64)
        self._costs = np.zeros((size, size), np.int64)
        stash, cost = _before(self._stash), _before(self._cost)
        begins = np.array(self._places)
        for index, end in enumerate(self._places):
            kept_bytes = np.zeros(len(self._entry), np.int64)
            apart, savings = kept_bytes.copy(), kept_bytes.copy()
            for maker, (last, value_bytes) in self._crossing.items():
                if maker < end <= last and end < self._end:
                    kept_bytes[maker], savings[maker] = value_bytes, self._savings[maker]
                    apart[maker] = 0 if self._stash[maker] else value_bytes
            self._keeps[:, index] = _sums(kept_bytes, begins, end)
            self._works[:, index] = stash[end] - stash[begins] + _sums(apart, begins, end)
            # The last segment, which has no cut at its end, does not run twice.
            self._costs[:, index] = cost[end] - cost[begins] - _sums(savings, begins, end)

    @property
    def bytes_without(self) -> int:
        """Bytes of activations that are live without recomputation."""
        return int(self._stash.sum())

    @functools.cached_property
    def least(self) -> Checkpoints:
        """The checkpoints with which the fewest bytes are live, the cheapest of them."""
        limits = sorted({int(total) for total in self._bounds()})
        way = self.within(limits[bisect.bisect_left(limits, True, key=self._is_possible)])
        assert way is not None
        return way

    def _is_possible(self, live_bytes: int) -> bool:
        """Returns whether some checkpoints leave at most so many bytes live."""
        end = len(self._places) - 1
        least = np.full(end, live_bytes + 1)
        least[0] = 0
        for place in range(1, end):
            fits = least[:place] + self._works[:place, place] <= live_bytes
            least[place] = min(
                (least[:place] + self._keeps[:place, place])[fits], default=live_bytes + 1
            )
        return bool(np.any(least + self._works[:end, end] <= live_bytes))

    def _bounds(self) -> Sequence[int]:
        """Returns limits of live bytes to choose from: the least lies within 1% of one."""
        whole = max(1, self.bytes_without)
        return [*(whole * step // 100 for step in range(1, 100)), whole]

    def within(self, live_bytes: int) -> Checkpoints | None:
        """Returns the cheapest checkpoints with at most so many bytes live, None for none."""
        end = len(self._places) - 1
        # By place, then by the amount of kept bytes.
        ways: list[dict[int, _Way]] = [{} for _ in self._places]
        ways[0] = {0: _Way()}
        step = max(1, live_bytes // _KEPT_STEPS)
        for begin, place in itertools.combinations(range(end), 2):
            work, keeps = int(self._works[begin, place]), int(self._keeps[begin, place])
            cost = int(self._costs[begin, place])
            for way in ways[begin].values():
                if way.kept_bytes + work > live_bytes:
                    continue
                longer = way.with_segment(self._places[place], work, keeps, cost)
                way_so_far = ways[place].get(longer.kept_bytes // step)
                if way_so_far is None or longer.rank < way_so_far.rank:
                    ways[place][longer.kept_bytes // step] = longer
                # Of a limit that is only just possible no other way may stay below it.
                least = ways[place].get(_LEAST)
                if least is None or longer.thrift < least.thrift:
                    ways[place][_LEAST] = longer
        works = self._works[:, end]
        whole = [
            (way.cost, way.live_bytes, way.cuts, max(way.live_bytes, way.kept_bytes + int(work)))
            for work, to_there in zip(works, ways, strict=True)
            for way in to_there.values()
            if way.kept_bytes + work <= live_bytes
        ]
        if not whole:
            return None
        cost, _, cuts, live = min(whole)
        return Checkpoints(cuts=cuts, live_bytes=live, cost=cost)

    def layers_within(self, share: float) -> tuple[str, ...]:
        """Returns the layers before the cheapest checkpoints with a limit of live bytes.

        Args:
            share: The limit: 0 for the fewest bytes, 1 for those without recomputation.
        """
        least = self.least
        limit = least.live_bytes + int(share * (self.bytes_without - least.live_bytes))
        way = self.within(limit) or least
        return self._layers_before(way.cuts)

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers before all places at which a segment may end."""
        return self._layers_before(self._places[1:-1])

    def _layers_before(self, cuts: Iterable[int]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(filter(None, map(self.layer_before, cuts))))

    def layer_before(self, place: int) -> str:
        """Returns the path of the layer after which a segment ends."""
        return next((one.layer for one in self._entry[place - 1 :: -1] if one.layer), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """A way to cut the forward pass up to a place.

    Attributes:
        kept_bytes: Bytes that its segments keep.
        cost: The cost of their recomputation.
        live_bytes: The most bytes that are live while they run backward.
        cuts: Where they end.
    """

    kept_bytes: int = 0
    cost: int = 0
    live_bytes: int = 0
    cuts: tuple[int, ...] = ()

    def with_segment(self, place: int, work: int, keeps: int, cost: int) -> _Way:
        """Returns the way with one more segment.

        Args:
            place: Where it ends.
            work: Bytes that are live while it runs backward, besides those of earlier segments.
            keeps: Bytes that it keeps for later ones.
            cost: The cost of its recomputation.
        """
        return _Way(
            kept_bytes=self.kept_bytes + keeps,
            cost=self.cost + cost,
            live_bytes=max(self.live_bytes, self.kept_bytes + work),
            cuts=(*self.cuts, place),
        )

    @property
    def rank(self) -> tuple[int, int, int]:
        """The sort key, best first, among ways that keep about the same."""
        return self.cost, self.live_bytes, self.kept_bytes

    @property
    def thrift(self) -> tuple[int, int, int]:
        """The sort key, that with the fewest kept bytes first."""
        return self.kept_bytes, self.cost, self.live_bytes


def _before(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the sum of the entries before each entry, and the sum of all."""
    return np.concatenate([[0], np.cumsum(values)])


def _sums(values: NDArray[np.int64], begins: NDArray[np.int64], end: int) -> NDArray[np.int64]:
    """Returns the sums of the entries from each beginning to an end."""
    before = _before(values)
    return before[end] - before[np.minimum(begins, end)]
