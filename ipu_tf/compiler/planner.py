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
from ipu_tf.compiler.plan_bound import least_cycles
from ipu_tf.compiler.plan_check import check_proportion
from ipu_tf.compiler.plan_cost import plan_cost
from ipu_tf.compiler.releases import CURRENT, Release
from ipu_tf.compiler.search_space import parallel_splits, with_serial_steps
from ipu_tf.compiler.shapes import AMP_GRAINS, ConvShape, MatMulShape, OpShape
from ipu_tf.machine.target import Target

_CACHED_PLANS = 4096
_PRICED_FIRST = 64
"""Plans of the lowest bounds; the best of them rules most others out."""

_PRICED_GROWTH = 4
_STEPPED = 256
"""Splits for which serial steps are tried: those of the lowest bounds, and of the least memory."""

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
    partials = partial_dtype(shape.dtype, partials)
    splits = parallel_splits(shape, target, plan_type.serial_names(), partials)
    for method in methods_for(shape):
        if method not in limits.release.methods:
            continue
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
        self._backoff = limits.release.cycle_backoff
        self._best: _Found | None = None
        self._least: _Found | None = None
        self._priced: list[_Found] = []

    def add(self, plans: Candidates) -> None:
        """Looks for a better plan among candidates without serial steps, and their serial ones."""
        bound = least_cycles(self._shape, plans, self._target)
        self._price(plans, bound)
        if self._best is None:
            needed = scratch_bytes(self._shape, plans, self._target)
            self._keep_least(plans, needed)
        else:
            plans, bound = _under(plans, bound, self._most_cycles)
            needed = scratch_bytes(self._shape, plans, self._target)
        large = needed > self._limit_bytes
        if not large.any():
            return
        plans, bound, needed = plans.take(large), bound[large], needed[large]
        chosen = np.union1d(_smallest(bound, _STEPPED), _smallest(needed, _STEPPED))
        stepped = with_serial_steps(self._shape, plans.take(chosen))
        bound = least_cycles(self._shape, stepped, self._target)
        self._price(stepped, bound)
        if self._best is None:
            self._keep_least(stepped, scratch_bytes(self._shape, stepped, self._target))

    def result(self, plan_type: type[PlanT]) -> PlanT:
        """Returns the cheapest plan that fits, else the one of least memory."""
        if self._best is not None:
            within = (found for found in self._priced if found.cycles <= self._most_cycles)
            least = min(within, key=lambda found: found.needed_bytes, default=self._best)
            return _plan(plan_type, least)
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
        return np.inf if self._best is None else self._best.cycles * (1 + self._backoff)

    def _keep_least(self, plans: Candidates, needed: NDArray[np.int64]) -> None:
        if len(needed) == 0:
            return
        index = int(np.argmin(needed))
        if self._least is None or needed[index] < self._least.needed_bytes:
            self._least = _Found(plans=plans, index=index, needed_bytes=int(needed[index]))

    def _price(self, plans: Candidates, bound: NDArray[np.int64]) -> None:
        """Prices candidates that fit, in the order of bounds, until none can be of interest."""
        order = _smallest(bound, _PRICED_FIRST)
        begin = 0
        while begin < len(order) and bound[order[begin]] <= self._most_cycles:
            batch = plans.take(order[begin:])
            needed = scratch_bytes(self._shape, batch, self._target)
            fits = needed <= self._limit_bytes
            if fits.any():
                self._keep_best(batch.take(fits), needed[fits])
            begin = len(order)
            interesting = np.flatnonzero(bound <= self._most_cycles)
            within = _smallest(bound[interesting], _PRICED_GROWTH * begin)
            order = interesting[within]

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
        if self._backoff:
            within = np.flatnonzero(cycles <= self._most_cycles)
            self._priced.extend(
                _Found(
                    plans=plans, index=int(i), needed_bytes=int(needed[i]), cycles=int(cycles[i])
                )
                for i in within
            )


def _first(*keys: NDArray[np.int64]) -> int:
    """Returns the index of the smallest entry of the first key, ties by the later keys.

    The last keys favour plans that split the outermost extents the most, which leaves blocks of
    long contiguous rows.
    """
    return int(np.lexsort(keys[::-1])[0])


def _under(
    plans: Candidates, bound: NDArray[np.int64], most: float
) -> tuple[Candidates, NDArray[np.int64]]:
    """Returns the candidates whose bound is below a number of cycles, and their bounds."""
    under = bound < most
    return plans.take(under), bound[under]


def _smallest(values: NDArray[np.int64], count: int) -> NDArray[np.intp]:
    """Returns the indices of the smallest values in ascending order, at most `count`."""
    if len(values) <= count:
        return np.argsort(values, kind="stable")
    some = np.argpartition(values, count)[:count]
    return some[np.argsort(values[some], kind="stable")]


def _plan(plan_type: type[PlanT], found: _Found) -> PlanT:
    plans, index = found.plans, found.index
    splits = {name: int(parts[index]) for name, parts in plans.splits.items()}
    serial = {f"serial_{name}": int(steps[index]) for name, steps in plans.serial.items()}
    return plan_type(
        **splits, **serial, grain=plans.grain, partials=plans.partials, method=plans.method
    )
