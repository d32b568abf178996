"""Finds the plan of the fewest modelled cycles that fits the memory of a tile.

For every method that can compute the op, all splits over tiles (of a thinned set of part counts)
are bounded from below at once; plans are then priced in the order of their bounds until no bound
is below the best price. A plan in serial steps never costs less than the same plan without: steps
are tried for the splits that would be cheaper but do not fit.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

import numpy as np

from ipu_tf.compiler.candidates import Candidates
from ipu_tf.compiler.methods import methods_for
from ipu_tf.compiler.plan import ConvPlan, MatMulPlan, Plan, PlanDoesNotFit, partial_dtype
from ipu_tf.compiler.plan_blocks import scratch_bytes
from ipu_tf.compiler.plan_bound import least_cycles
from ipu_tf.compiler.plan_check import check_proportion
from ipu_tf.compiler.plan_cost import plan_cost
from ipu_tf.compiler.search_space import parallel_splits, with_serial_steps
from ipu_tf.compiler.shapes import AMP_GRAINS, ConvShape, MatMulShape, OpShape
from ipu_tf.machine.target import Target

_CACHED_PLANS = 4096
_PRICED_AT_ONCE = 512
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
) -> MatMulPlan:
    """Returns the cheapest plan of a matmul.

    Args:
        shape: The matmul.
        target: The machine.
        partials: Type of the partial results; float32 inputs always have float32 partials.
        available_memory_proportion: Share of a tile's memory that the plan may take, in (0, 1].
            Where no plan fits it, the plan of least memory is returned if it fits the tile.

    Raises:
        PlanDoesNotFit: No plan fits the tile.
        ValueError: `partials` or the proportion is not valid.
    """
    return _search(MatMulPlan, shape, target, partials, available_memory_proportion)


@lru_cache(maxsize=_CACHED_PLANS)
def plan_conv(
    shape: ConvShape,
    target: Target,
    *,
    partials: str = "float32",
    available_memory_proportion: float = 0.6,
) -> ConvPlan:
    """Returns the cheapest plan of a convolution or of one of its gradients.

    Arguments and errors are those of `plan_matmul`.
    """
    return _search(ConvPlan, shape, target, partials, available_memory_proportion)


def _search(
    plan_type: type[PlanT], shape: OpShape, target: Target, partials: str, proportion: float
) -> PlanT:
    """Returns the best plan of a type, for the two public planners."""
    check_proportion(proportion)
    search = _Search(shape, target, int(target.tile_bytes * proportion))
    splits = parallel_splits(shape, target, plan_type.serial_names())
    for method in methods_for(shape):
        search.add(
            Candidates(
                splits=splits.splits,
                serial=splits.serial,
                method=method,
                grain=AMP_GRAINS[shape.dtype],
                partials=partial_dtype(shape.dtype, partials),
            )
        )
    return search.result(plan_type)


class _Search:
    """The best plan so far, and the one of least memory."""

    def __init__(self, shape: OpShape, target: Target, limit_bytes: int) -> None:
        self._shape = shape
        self._target = target
        self._limit_bytes = limit_bytes
        self._best_key: tuple[int, ...] | None = None
        self._best: tuple[Candidates, int] | None = None
        self._least_bytes: int | None = None
        self._least: tuple[Candidates, int] | None = None

    def add(self, plans: Candidates) -> None:
        """Looks for a better plan among candidates without serial steps, and their serial ones."""
        bound = least_cycles(self._shape, plans, self._target)
        needed = scratch_bytes(self._shape, plans, self._target)
        self._keep_least(plans, needed)
        fits = needed <= self._limit_bytes
        self._price(plans.take(fits), bound[fits])
        worth = ~fits & (bound < self._best_cycles)
        if not worth.any():
            return
        large, bound, needed = plans.take(worth), bound[worth], needed[worth]
        chosen = np.union1d(np.argsort(bound)[:_STEPPED], np.argsort(needed)[:_STEPPED])
        stepped = with_serial_steps(self._shape, large.take(chosen))
        needed = scratch_bytes(self._shape, stepped, self._target)
        self._keep_least(stepped, needed)
        stepped = stepped.take(needed <= self._limit_bytes)
        self._price(stepped, least_cycles(self._shape, stepped, self._target))

    def result(self, plan_type: type[PlanT]) -> PlanT:
        """Returns the cheapest plan that fits, else the one of least memory."""
        if self._best is not None:
            return _plan(plan_type, *self._best)
        if self._least is None or self._least_bytes is None:
            raise ValueError(f"{self._shape.op}: no plan exists. Received: {self._shape!r}.")
        if self._least_bytes > self._target.tile_bytes:
            raise PlanDoesNotFit(
                f"{self._shape.op}: every plan on {self._target.tiles} tiles needs at least "
                f"{self._least_bytes} bytes of a tile, a tile of {self._target.chip} has "
                f"{self._target.tile_bytes}. Use a smaller batch, split the layer, or use a "
                f"machine with more tiles. Received: {self._shape!r}."
            )
        return _plan(plan_type, *self._least)

    @property
    def _best_cycles(self) -> float:
        return np.inf if self._best_key is None else self._best_key[0]

    def _keep_least(self, plans: Candidates, needed: np.ndarray) -> None:
        index = int(np.argmin(needed))
        if self._least_bytes is None or needed[index] < self._least_bytes:
            self._least_bytes = int(needed[index])
            self._least = (plans, index)

    def _price(self, plans: Candidates, bound: np.ndarray) -> None:
        """Prices candidates in the order of their bounds until none can be better."""
        order = np.argsort(bound, kind="stable")
        for begin in range(0, len(order), _PRICED_AT_ONCE):
            batch = order[begin : begin + _PRICED_AT_ONCE]
            if bound[batch[0]] > self._best_cycles:
                return
            self._keep_best(plans.take(batch))

    def _keep_best(self, plans: Candidates) -> None:
        keys = (
            plan_cost(self._shape, plans, self._target),
            plans.tile_parts(self._shape.reduction_splits),
            plans.tiles,
        )
        index = _first(*keys, *(-plans.splits[name] for name in plans.splits))
        key = tuple(int(values[index]) for values in keys)
        if self._best_key is None or key < self._best_key:
            self._best_key = key
            self._best = (plans, index)


def _first(*keys: np.ndarray) -> int:
    """Returns the index of the smallest entry of the first key, ties by the later keys.

    The last keys favour plans that split the outermost extents the most, which leaves blocks of
    long contiguous rows.
    """
    return int(np.lexsort(keys[::-1])[0])


def _plan(plan_type: type[PlanT], plans: Candidates, index: int) -> PlanT:
    splits = {name: int(parts[index]) for name, parts in plans.splits.items()}
    serial = {f"serial_{name}": int(steps[index]) for name, steps in plans.serial.items()}
    return plan_type(
        **splits, **serial, grain=plans.grain, partials=plans.partials, method=plans.method
    )
