"""Finds the plan of the fewest modelled cycles that fits the memory of a tile.

For every method that can compute the op, the search computes lower bounds of all splits over tiles
(of a thinned set of part counts) at once; it then prices plans in the order of their bounds until
no bound is below the best price. A plan in serial steps never costs less than the same plan without
them, so the search tries steps only for splits that would be cheaper but do not fit. For a release
that trades cycles for memory it runs again, for the least memory within those cycles.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

from ipu_tf.machine.contractions import pass_columns
from ipu_tf.machine.cost import as_counts
from ipu_tf.machine.target import Target
from ipu_tf.planner.candidates import Candidates
from ipu_tf.planner.methods import methods_for
from ipu_tf.planner.plan import ConvPlan, MatMulPlan, Plan, partial_dtype
from ipu_tf.planner.plan_check import check_proportion
from ipu_tf.planner.plan_search import PlanChoice, PlanSearch
from ipu_tf.planner.releases import CURRENT, Release
from ipu_tf.planner.search_space import Splits, parallel_splits, role, waiting_extent
from ipu_tf.planner.shapes import AMP_GRAINS, ConvShape, MatMulShape, OpShape

_CACHED_PLANS = 4096
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
            If no plan fits it, returns the plan of least memory if that fits the tile.
        release: The poplibs release whose planner the search follows.

    Raises:
        PlanDoesNotFit: No plan fits the tile.
        ValueError: `partials` or the proportion is not valid.
    """
    return _search(MatMulPlan, shape, target, partials, available_memory_proportion, release)


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
    return _search(ConvPlan, shape, target, partials, available_memory_proportion, release)


def plan_op(
    shape: OpShape,
    target: Target,
    *,
    partials: str = "float32",
    available_memory_proportion: float = 0.6,
    release: Release = CURRENT,
) -> Plan:
    """Returns the cheapest plan of an op.

    Arguments and errors are those of `plan_matmul`.
    """
    search = plan_matmul if isinstance(shape, MatMulShape) else plan_conv
    plan: Plan = search(
        shape,
        target,
        partials=partials,
        available_memory_proportion=available_memory_proportion,
        release=release,
    )
    return plan


def _search(
    plan_type: type[PlanT],
    shape: OpShape,
    target: Target,
    partials: str,
    proportion: float,
    release: Release,
) -> PlanT:
    """Returns the best plan of a type, for the two public planners."""
    check_proportion(proportion)
    limit_bytes = int(target.tile_bytes * proportion)
    search = PlanSearch(shape, target, limit_bytes=limit_bytes, release=release)
    partials = partial_dtype(shape.dtype, partials)
    width = pass_columns(shape.dtype, partials, target)
    splits_by_extent: dict[str, Splits] = {}
    for method in methods_for(shape):
        if method not in release.methods or search.rules_out(method, partials):
            continue
        column_extent = waiting_extent(shape, method)
        if column_extent not in splits_by_extent:
            serial_names = tuple(
                name
                for name in plan_type.serial_names()
                if role(shape, method, name) in release.serial_roles
            )
            splits_by_extent[column_extent] = parallel_splits(
                shape, target, serial_names, column_extent=column_extent, width=width
            )
        splits = splits_by_extent[column_extent]
        search.add(
            Candidates(
                splits=splits.splits,
                serial=splits.serial,
                method=method,
                grain=AMP_GRAINS[shape.dtype],
                partials=partials,
            )
        )
    return _plan(plan_type, search.result())


def _plan(plan_type: type[PlanT], choice: PlanChoice) -> PlanT:
    plans, index = choice.plans, choice.index
    splits = {name: int(as_counts(parts)[index]) for name, parts in plans.splits.items()}
    serial = {
        f"serial_{name}": steps if isinstance(steps, int) else int(steps[index])
        for name, steps in plans.serial.items()
    }
    return plan_type(
        **splits, **serial, grain=plans.grain, partials=plans.partials, method=plans.method
    )
