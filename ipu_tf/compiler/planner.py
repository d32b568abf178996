"""Finds the plan of the fewest modelled cycles that fits the memory of a tile.

The search is exhaustive over a thinned set of part counts: all candidate plans are priced at once
as NumPy arrays. Only the AMP method is planned, and no serial splits.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ipu_tf.compiler.plan import ConvPlan, MatMulPlan, PlanDoesNotFit, partial_dtype
from ipu_tf.compiler.plan_cost import parts_product, plan_bytes, plan_cost
from ipu_tf.compiler.shapes import AMP_GRAINS, ConvShape, MatMulShape, OpShape
from ipu_tf.machine.cost import ceil_div
from ipu_tf.machine.target import Target

_CACHED_PLANS = 4096
_ALWAYS_TRIED = 4
"""Every number of parts up to this one is tried."""

PlanT = TypeVar("PlanT", MatMulPlan, ConvPlan)

_COLUMN_SPLITS = ("columns", "out_channels")


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
    if not 0 < proportion <= 1:
        raise ValueError(
            "`available_memory_proportion` must be above 0 and at most 1. "
            f"Received: {proportion!r}."
        )
    grain = AMP_GRAINS[shape.dtype]
    partials = partial_dtype(shape.dtype, partials)
    splits = _candidates(shape, target, grain)
    needed_bytes = plan_bytes(shape, splits, grain=grain, partials=partials)
    least_bytes = int(needed_bytes.min())
    if least_bytes > target.tile_bytes:
        raise PlanDoesNotFit(
            f"{shape.op}: every plan on {target.tiles} tiles needs at least {least_bytes} bytes "
            f"of a tile, a tile of {target.chip} has {target.tile_bytes}. Use a smaller batch, "
            f"split the layer, or use a machine with more tiles. Received: {shape!r}."
        )
    possible = needed_bytes <= max(int(target.tile_bytes * proportion), least_bytes)
    splits = {name: parts[possible] for name, parts in splits.items()}
    cost = plan_cost(shape, splits, grain=grain, partials=partials, target=target)
    best = _best(
        cost.total_cycles,
        parts_product(splits, shape.reduction_splits),
        parts_product(splits, tuple(splits)),
    )
    chosen = {name: int(parts[best]) for name, parts in splits.items()}
    return plan_type(**chosen, grain=grain, partials=partials)


def _candidates(shape: OpShape, target: Target, grain: int) -> dict[str, NDArray[np.int64]]:
    """Returns the candidate plans: for every split, the number of parts in each of them."""
    names = list(shape.extents)
    # The last column is the product of the others: plans that need too many tiles go at once.
    rows: NDArray[np.int64] = np.ones((1, 1), dtype=np.int64)
    for name in names:
        parts = np.array(list(_part_counts(shape, name, target, grain)), dtype=np.int64)
        tiles = rows[:, -1:] * parts
        row, part = np.nonzero(tiles <= target.tiles)
        rows = np.column_stack([rows[row, :-1], parts[part], tiles[row, part]])
    return dict(zip(names, rows.T[:-1], strict=True))


def _part_counts(shape: OpShape, name: str, target: Target, grain: int) -> Iterator[int]:
    """Yields the part counts worth trying for one extent, each with another largest part."""
    extent = shape.extents[name]
    units = ceil_div(extent, grain) if name == shape.grained_split else extent
    # A column block narrower than the AMP unit leaves part of it idle.
    useful = ceil_div(extent, target.amp_columns) if name in _COLUMN_SPLITS else units
    most = min(useful, target.tiles)
    seen = set()
    for parts in range(1, most + 1):
        power_of_two = parts & (parts - 1) == 0
        divides = units % parts == 0 or target.tiles % parts == 0
        largest = ceil_div(units, parts)
        if largest not in seen and (power_of_two or divides or parts <= _ALWAYS_TRIED):
            seen.add(largest)
            yield parts


def _best(*keys: NDArray[np.int64]) -> int:
    """Returns the index of the smallest entry of the first key, ties by the later keys.

    Among candidates alike in all keys the last one wins: it splits the outermost extents the
    most, which leaves blocks of long contiguous rows.
    """
    last_first = -np.arange(len(keys[0]))
    return int(np.lexsort((last_first, *keys[::-1]))[0])
