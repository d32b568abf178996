"""Finds the plan of the fewest modelled cycles that fits the memory of a tile.

For every method that can compute the op, all splits over tiles (of a thinned set of part counts)
are bounded from below at once; plans are then priced in the order of their bounds until no bound
is below the best price. A plan in serial steps never costs less than the same plan without: steps
are tried for the splits that would be cheaper but do not fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ipu_tf.compiler.candidates import Candidates
from ipu_tf.compiler.methods import methods_for
from ipu_tf.compiler.plan import ConvPlan, MatMulPlan, PlanDoesNotFit, partial_dtype
from ipu_tf.compiler.plan_blocks import scratch_bytes
from ipu_tf.compiler.plan_bound import least_cycles, least_cycles_by
from ipu_tf.compiler.plan_check import check_proportion
from ipu_tf.compiler.plan_cost import plan_cost
from ipu_tf.compiler.releases import CURRENT, Release
from ipu_tf.compiler.search_space import (
    Splits,
    in_all_steps,
    in_fewest_steps,
    parallel_splits,
    role,
    waiting_extent,
)
from ipu_tf.compiler.shapes import AMP_GRAINS, ConvShape, MatMulShape, OpShape
from ipu_tf.machine.contractions import pass_columns
from ipu_tf.machine.target import Target

_CACHED_PLANS = 4096
_PRICED_FIRST = 256
"""Plans of the lowest bounds; the best of them rules most others out."""

_PRICED_GROWTH = 8
_STEPPED_FIRST = 64
"""Splits of the lowest bounds, and of the least memory, that are taken in steps before others."""

PlanT = TypeVar("PlanT", MatMulPlan, ConvPlan)


@lru_cache(maxsize=_CACHED_PLANS)
def plan_matmul(
    shape: MatMulShape,
    target: Target,
    *,
    partials: str = "float32",
    available_memory_proportion: float = 0.6,
    release: Release = CURRENT,
) -> MatMulPlan:
    """Returns the cheapest plan of a matmul.

    Args:
        shape: The matmul.
        target: The machine.
        partials: Type of the partial results; float32 inputs always have float32 partials.
        available_memory_proportion: Share of a tile's memory that the plan may take, in (0, 1].
            Where no plan fits it, the plan of least memory is returned if it fits the tile.
        release: Whose planner to follow.

    Raises:
        PlanDoesNotFit: No plan fits the tile.
        ValueError: `partials` or the proportion is not valid.
    """
    limits = _Limits(proportion=available_memory_proportion, release=release)
    return _search(MatMulPlan, shape, target, partials, limits)


@lru_cache(maxsize=_CACHED_PLANS)
def plan_conv(
    shape: ConvShape,
    target: Target,
    *,
    partials: str = "float32",
    available_memory_proportion: float = 0.6,
    release: Release = CURRENT,
) -> ConvPlan:
    """Returns the cheapest plan of a convolution or of one of its gradients.

    Arguments and errors are those of `plan_matmul`.
    """
    limits = _Limits(proportion=available_memory_proportion, release=release)
    return _search(ConvPlan, shape, target, partials, limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limits:
    """What a plan may take, as the public planners document it."""

    proportion: float
    release: Release

    def __post_init__(self) -> None:
        check_proportion(self.proportion)


def _search(
    plan_type: type[PlanT], shape: OpShape, target: Target, partials: str, limits: _Limits
) -> PlanT:
    """Returns the best plan of a type, for the two public planners."""
    search = _Search(shape, target, limits)
    release = limits.release
    partials = partial_dtype(shape.dtype, partials)
    width = pass_columns(shape.dtype, partials, target)
    by_waiting: dict[str, Splits] = {}
    for method in methods_for(shape):
        if method not in release.methods or search.rules_out(method, partials):
            continue
        waiting = waiting_extent(shape, method)
        if waiting not in by_waiting:
            serial_names = tuple(
                name
                for name in plan_type.serial_names()
                if role(shape, method, name) in release.stepped
            )
            by_waiting[waiting] = parallel_splits(
                shape, target, serial_names, filled=waiting, width=width
            )
        splits = by_waiting[waiting]
        search.add(
            Candidates(
                splits=splits.splits,
                serial=splits.serial,
                method=method,
                grain=AMP_GRAINS[shape.dtype],
                partials=partials,
            )
        )
    return search.result(plan_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A plan among candidates."""

    plans: Candidates
    index: int
    needed_bytes: int
    cycles: int = 0
    ties: tuple[int, ...] = ()


class _Search:
    """The best plan so far, and the one of least memory."""

    def __init__(self, shape: OpShape, target: Target, limits: _Limits) -> None:
        self._shape = shape
        self._target = target
        self._limit_bytes = int(target.tile_bytes * limits.proportion)
        self._release = limits.release
        self._added: list[Candidates] = []
        self._best: _Found | None = None
        self._least: _Found | None = None

    def rules_out(self, method: str, partials: str) -> bool:
        """Returns whether no plan by a method can be of interest."""
        least = least_cycles_by(method, self._shape, partials, self._target)
        return least > self._most_cycles

    def add(self, plans: Candidates) -> None:
        """Looks for a better plan among candidates without serial steps, and their serial ones."""
        if self._release.cycle_backoff:
            self._added.append(plans)
        plans, bound, needed = self._of_interest(plans)
        self._price(plans, bound, needed)
        large = np.flatnonzero((needed > self._limit_bytes) & (bound < self._most_cycles))
        # A good plan in steps rules most others out.
        few = np.union1d(
            _smallest(bound[large], _STEPPED_FIRST), _smallest(needed[large], _STEPPED_FIRST)
        )
        self._add_stepped(plans.take(large[few]))
        rest = np.delete(large, few)
        self._add_stepped(plans.take(rest[bound[rest] < self._most_cycles]))

    def _add_stepped(self, plans: Candidates) -> None:
        """Looks for a better plan among candidates in as few serial steps as make them fit."""
        for stepped in in_fewest_steps(
            self._shape, plans, self._target, self._limit_bytes, self._release
        ):
            self._price(*self._of_interest(stepped))

    def result(self, plan_type: type[PlanT]) -> PlanT:
        """Returns the cheapest plan that fits, else the one of least memory."""
        if self._best is not None:
            return _plan(plan_type, self._smallest_within(self._best))
        if self._least is None:
            raise ValueError(f"{self._shape.op}: no plan exists. Received: {self._shape!r}.")
        if self._least.needed_bytes > self._target.tile_bytes:
            raise PlanDoesNotFit(
                f"{self._shape.op}: every plan on {self._target.tiles} tiles needs at least "
                f"{self._least.needed_bytes} bytes of a tile, a tile of {self._target.chip} has "
                f"{self._target.tile_bytes}. Use a smaller batch, split the layer, or use a "
                f"machine with more tiles. Received: {self._shape!r}."
            )
        return _plan(plan_type, self._least)

    @property
    def _most_cycles(self) -> float:
        """Above these cycles no plan is of interest."""
        if self._best is None:
            return np.inf
        return self._best.cycles * (1 + self._release.cycle_backoff)

    def _of_interest(
        self, plans: Candidates
    ) -> tuple[Candidates, NDArray[np.int64], NDArray[np.int64]]:
        """Returns the candidates that can be of interest, their bounds and the bytes they need."""
        bound = least_cycles(self._shape, plans, self._target)
        if self._best is not None:
            interesting = np.flatnonzero(bound <= self._most_cycles)
            plans, bound = plans.take(interesting), bound[interesting]
        return plans, bound, scratch_bytes(self._shape, plans, self._target)

    def _price(
        self, plans: Candidates, bound: NDArray[np.int64], needed: NDArray[np.int64]
    ) -> None:
        """Prices candidates that fit, in the order of bounds, until none can be of interest."""
        fits = np.flatnonzero(needed <= self._limit_bytes)
        if self._best is None and len(fits) == 0:
            self._keep_least(plans, needed)
        order, count = _smallest(bound[fits], _PRICED_FIRST), _PRICED_FIRST
        while len(order) and bound[fits[order[0]]] <= self._most_cycles:
            chosen = fits[order]
            self._keep_best(plans.take(chosen), needed[chosen])
            fits = np.delete(fits, order)
            fits = fits[bound[fits] <= self._most_cycles]
            count *= _PRICED_GROWTH
            order = _smallest(bound[fits], count)

    def _keep_least(self, plans: Candidates, needed: NDArray[np.int64]) -> None:
        if len(needed) == 0:
            return
        index = int(np.argmin(needed))
        if self._least is None or needed[index] < self._least.needed_bytes:
            self._least = _Found(plans=plans, index=index, needed_bytes=int(needed[index]))

    def _keep_best(self, plans: Candidates, needed: NDArray[np.int64]) -> None:
        cycles = plan_cost(self._shape, plans, self._target)
        depth = plans.tile_parts(self._shape.reduction_splits)
        outermost = (-plans.splits[name] for name in plans.splits)
        index = _first(cycles, depth, plans.tiles, *outermost)
        best = _Found(
            plans=plans,
            index=index,
            needed_bytes=int(needed[index]),
            cycles=int(cycles[index]),
            ties=(int(depth[index]), int(plans.tiles[index])),
        )
        if self._best is None or (best.cycles, best.ties) < (self._best.cycles, self._best.ties):
            self._best = best

    def _smallest_within(self, best: _Found) -> _Found:
        """Returns the plan of least memory in no more cycles than the release gives up."""
        for splits in self._added:
            plans, bound, needed = self._of_interest(splits)
            best = self._smaller(best, plans, bound, needed)
            for stepped in in_all_steps(self._shape, plans, self._release):
                best = self._smaller(best, *self._of_interest(stepped))
        return best

    def _smaller(
        self,
        best: _Found,
        plans: Candidates,
        bound: NDArray[np.int64],
        needed: NDArray[np.int64],
    ) -> _Found:
        """Prices candidates in the order of their memory, until one takes no more cycles."""
        order = np.lexsort((bound, needed))
        order = order[needed[order] < best.needed_bytes]
        for start in range(0, len(order), _PRICED_FIRST):
            chosen = order[start : start + _PRICED_FIRST]
            cycles = plan_cost(self._shape, plans.take(chosen), self._target)
            within = np.flatnonzero(cycles <= self._most_cycles)
            if len(within):
                index = int(chosen[within[0]])
                return _Found(plans=plans, index=index, needed_bytes=int(needed[index]))
        return best


def _first(*keys: NDArray[np.int64]) -> int:
    """Returns the index of the smallest entry of the first key, ties by the later keys.

    The last keys favour plans that split the outermost extents the most, which leaves blocks of
    long contiguous rows.
    """
    return int(np.lexsort(keys[::-1])[0])


def _smallest(values: NDArray[np.int64], count: int) -> NDArray[np.intp]:
    """Returns the indices of the smallest values in ascending order, at most `count`."""
    if len(values) <= count:
        return np.argsort(values, kind="stable")
    some = np.argpartition(values, count)[:count]
    return some[np.argsort(values[some], kind="stable")]


def _plan(plan_type: type[PlanT], found: _Found) -> PlanT:
    plans, index = found.plans, found.index
    splits = {name: int(parts[index]) for name, parts in plans.splits.items()}
    serial = {
        f"serial_{name}": steps if isinstance(steps, int) else int(steps[index])
        for name, steps in plans.serial.items()
    }
    return plan_type(
        **splits, **serial, grain=plans.grain, partials=plans.partials, method=plans.method
    )
