"""Searches candidates: bounds all of them at once, then prices them until none can be better."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ipu_tf.machine.cost import Counts, as_counts
from ipu_tf.machine.target import Target
from ipu_tf.planner.arrivals import ranked_cycles
from ipu_tf.planner.candidates import Candidates
from ipu_tf.planner.plan import PlanDoesNotFit
from ipu_tf.planner.plan_blocks import scratch_bytes
from ipu_tf.planner.plan_bound import least_cycles, least_cycles_by
from ipu_tf.planner.plan_cost import plan_cost
from ipu_tf.planner.releases import Release
from ipu_tf.planner.search_space import in_all_steps, in_fewest_steps
from ipu_tf.planner.shapes import OpShape

_PRICED_FIRST = 256
"""Number of plans with the lowest bounds, priced first; the best of them rules out most others."""

_PRICED_GROWTH = 8
_CANDIDATES_FOR_STEPS = 1024
_CANDIDATES_FOR_MEMORY = 64
"""Number of splits tried in steps: those with the lowest bounds, and with the least memory. If
no plan fits, all splits are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChoice:
    """A plan among candidates."""

    plans: Candidates
    index: int
    needed_bytes: int
    cycles: int = 0
    ties: tuple[int, ...] = ()


class PlanSearch:
    """The best plan so far, and the plan with the least memory.

    Args:
        shape: The op.
        target: The machine.
        limit_bytes: Bytes of a tile that a plan may take.
        release: The poplibs release whose planner the search follows.
    """

    def __init__(
        self, shape: OpShape, target: Target, *, limit_bytes: int, release: Release
    ) -> None:
        self._shape = shape
        self._target = target
        self._limit_bytes = limit_bytes
        self._release = release
        self._candidates: list[Candidates] = []
        self._best: PlanChoice | None = None
        self._least: PlanChoice | None = None

    def rules_out(self, method: str, partials: str) -> bool:
        """Returns whether all plans of a method are too slow to be of interest."""
        least = least_cycles_by(method, self._shape, partials, self._target)
        return least > self._most_cycles

    def add(self, plans: Candidates) -> None:
        """Looks for a better plan among candidates without serial steps, then with serial steps."""
        if self._release.cycle_backoff:
            self._candidates.append(plans)
        plans, bound, needed_bytes = self._of_interest(plans)
        self._price(plans, bound, needed_bytes)
        large = np.flatnonzero((needed_bytes > self._limit_bytes) & (bound < self._most_cycles))
        indices = np.union1d(
            _smallest(bound[large], _CANDIDATES_FOR_STEPS),
            _smallest(needed_bytes[large], _CANDIDATES_FOR_MEMORY),
        )
        self._add_steps(plans, large[indices])
        if self._best is None:
            self._add_steps(plans, np.delete(large, indices))

    def _add_steps(self, plans: Candidates, indices: NDArray[np.intp]) -> None:
        """Looks for a better plan among some candidates, in the fewest steps that fit."""
        if len(indices) == 0:
            return
        for splits in in_fewest_steps(
            self._shape, plans.take(indices), self._target, self._limit_bytes, self._release
        ):
            self._price(*self._of_interest(splits))

    def result(self) -> PlanChoice:
        """Returns the cheapest plan that fits, else the plan with the least memory.

        Raises:
            PlanDoesNotFit: No plan fits the tile.
        """
        if self._best is not None:
            return self._smallest_within(self._best)
        if self._least is None:
            raise ValueError(f"{self._shape.op}: no plan exists. Received: {self._shape!r}.")
        if self._least.needed_bytes > self._target.tile_bytes:
            raise PlanDoesNotFit(
                f"{self._shape.op}: every plan on {self._target.tiles} tiles needs at least "
                f"{self._least.needed_bytes} bytes of a tile, a tile of {self._target.chip} has "
                f"{self._target.tile_bytes}. Use a smaller batch, split the layer, or use a "
                f"machine with more tiles. Received: {self._shape!r}."
            )
        return self._least

    @property
    def _most_cycles(self) -> float:
        """Cycles above which no plan is of interest."""
        if self._best is None:
            return np.inf
        return self._best.cycles * (1 + self._release.cycle_backoff)

    def _cycles(self, plans: Candidates) -> Counts:
        """Returns the cycles by which the release ranks plans."""
        price = ranked_cycles if self._release.arrivals else plan_cost
        return as_counts(price(self._shape, plans, self._target))

    def _of_interest(
        self, plans: Candidates
    ) -> tuple[Candidates, NDArray[np.int64], NDArray[np.int64]]:
        """Returns the candidates that can be of interest, their bounds and the bytes they need."""
        bound = as_counts(least_cycles(self._shape, plans, self._target))
        if self._best is not None:
            interesting = np.flatnonzero(bound <= self._most_cycles)
            plans, bound = plans.take(interesting), bound[interesting]
        return plans, bound, as_counts(scratch_bytes(self._shape, plans, self._target))

    def _price(
        self, plans: Candidates, bound: NDArray[np.int64], needed_bytes: NDArray[np.int64]
    ) -> None:
        """Prices candidates that fit, in the order of bounds, until none can be of interest."""
        fits = np.flatnonzero(needed_bytes <= self._limit_bytes)
        if self._best is None and len(fits) == 0:
            self._keep_least(plans, needed_bytes)
        order, count = _smallest(bound[fits], _PRICED_FIRST), _PRICED_FIRST
        while len(order) and bound[fits[order[0]]] <= self._most_cycles:
            indices = fits[order]
            self._keep_best(plans.take(indices), needed_bytes[indices])
            fits = np.delete(fits, order)
            fits = fits[bound[fits] <= self._most_cycles]
            count *= _PRICED_GROWTH
            order = _smallest(bound[fits], count)

    def _keep_least(self, plans: Candidates, needed_bytes: NDArray[np.int64]) -> None:
        if len(needed_bytes) == 0:
            return
        index = int(np.argmin(needed_bytes))
        if self._least is None or needed_bytes[index] < self._least.needed_bytes:
            self._least = PlanChoice(
                plans=plans, index=index, needed_bytes=int(needed_bytes[index])
            )

    def _keep_best(self, plans: Candidates, needed_bytes: NDArray[np.int64]) -> None:
        cycles = self._cycles(plans)
        depth = as_counts(plans.tile_parts(self._shape.reduction_splits))
        tiles = as_counts(plans.tiles)
        outermost = (as_counts(-parts) for parts in plans.splits.values())
        index = _first(cycles, depth, tiles, *outermost)
        best = PlanChoice(
            plans=plans,
            index=index,
            needed_bytes=int(needed_bytes[index]),
            cycles=int(cycles[index]),
            ties=(int(depth[index]), int(tiles[index])),
        )
        if self._best is None or (best.cycles, best.ties) < (self._best.cycles, self._best.ties):
            self._best = best

    def _smallest_within(self, best: PlanChoice) -> PlanChoice:
        """Returns the plan with the least memory within the cycles that the release accepts."""
        for splits in self._candidates:
            plans, bound, needed_bytes = self._of_interest(splits)
            best = self._smaller(best, plans, bound, needed_bytes)
            for splits_of_steps in in_all_steps(self._shape, plans, self._release):
                best = self._smaller(best, *self._of_interest(splits_of_steps))
        return best

    def _smaller(
        self,
        best: PlanChoice,
        plans: Candidates,
        bound: NDArray[np.int64],
        needed_bytes: NDArray[np.int64],
    ) -> PlanChoice:
        """Prices candidates in the order of their memory, until one stays within the cycles."""
        order = np.lexsort((bound, needed_bytes))
        order = order[needed_bytes[order] < best.needed_bytes]
        for start in range(0, len(order), _PRICED_FIRST):
            indices = order[start : start + _PRICED_FIRST]
            cycles = self._cycles(plans.take(indices))
            within = np.flatnonzero(cycles <= self._most_cycles)
            if len(within):
                index = int(indices[within[0]])
                return PlanChoice(plans=plans, index=index, needed_bytes=int(needed_bytes[index]))
        return best


def _first(*keys: NDArray[np.int64]) -> int:
    """Returns the index of the smallest entry of the first key, ties by the later keys.

    The last keys favour plans that split the outermost extents the most, which leaves blocks of
    long contiguous rows.
    """
    best = np.arange(len(keys[0]))
    for key in keys:
        if len(best) == 1:
            break
        values = key[best]
        best = best[values == values.min()]
    return int(best[0])


def _smallest(values: NDArray[np.int64], count: int) -> NDArray[np.intp]:
    """Returns the indices of the smallest values in ascending order, at most `count`."""
    if len(values) <= count:
        return np.argsort(values, kind="stable")
    smallest = np.argpartition(values, count)[:count]
    return smallest[np.argsort(values[smallest], kind="stable")]
